"""A sum that one bad actor cannot steer: gradients of usual length, that do not point against the others'.

Steps add few gradients (`learner.exchange.step_rule`), too few for a median of them. So each is judged by what came
before. Its length is clipped to twice the median over the actors of their usual lengths. Its direction is compared with
the decayed sum of the others' unit gradients: for an honest actor the mean cosine is that of all, above 0 as long as
there is something to learn; for one that flips the sign it is as far below. Single cosines are mostly noise, so an
actor is left out only when its mean over many gradients, and that of the others, are both several standard errors
from 0. Of three actors one that flips the sign cancels each of the others for the other: it takes four.

Its own part in the sum is taken out first: rollouts that follow each other are alike, so each would agree with itself.
"""

import math
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor

from common.errors import AgainstOthersError
from learner.bounded_dict import BoundedDict

SAMPLE = 2**14
"""Elements of a gradient that are compared, evenly spaced."""
HORIZON = 200
"""Gradients of all actors that the sum remembers."""
REMEMBERED = 300
"""Gradients of an actor over which its mean cosine is taken."""
LEAST = 20
"""Gradients of an actor before it is judged."""
SIGMAS = 4.0
"""Standard errors, of cosines taken for independent: those of rollouts in a row are not."""
LONG = 2.0
"""Times the median length to which gradients are clipped."""
TOO_LONG = 3.0
"""Times the median length at which an actor is named."""
SOURCES = 256
"""Actors remembered: those that sent last."""


@dataclass
class _Source:
    own: Tensor
    """Its part in the sum, as of the judgement `seen`."""
    seen: int = 0
    count: int = 0
    mean: float = 0.0
    square: float = 0.0
    """Mean cosine with the others, and mean of its square, over REMEMBERED gradients."""
    length: float = 0.0
    """Usual norm of one rollout's gradient."""
    out: bool = False

    @property
    def sigmas(self) -> float:
        """Of the mean cosine, from 0."""
        spread = math.sqrt(max(self.square - self.mean**2, 1e-12))
        return self.mean / spread * math.sqrt(min(self.count, REMEMBERED))


@dataclass
class Agreement:
    """Judges gradients in the order in which they are added."""

    size: int
    sources: BoundedDict[str, _Source] = field(default_factory=lambda: BoundedDict(SOURCES))

    def __post_init__(self) -> None:
        self._stride = -(-self.size // SAMPLE)
        self._sum = torch.zeros(-(-self.size // self._stride))
        self._judged = 0

    def judge(self, name: str, gradient: Tensor, norm: float, count: int) -> float:
        """The factor on a gradient of this norm, the sum over `count` rollouts; raises AgainstOthersError for none."""
        source = self._source(name)
        length = norm / math.sqrt(count)
        usual = self._usual_length()
        source.length += (length - source.length) * max(0.05, 1 / (source.count + 1))
        sample = gradient[:: self._stride].contiguous()
        part = float(torch.linalg.vector_norm(sample))
        if part > 0.0:
            self._compare(source, sample, part)
        if source.out:
            raise AgainstOthersError(f"{name}'s gradients point against the others': they are left out")
        return min(1.0, LONG * usual / length) if length else 1.0

    def named(self) -> list[str]:
        """What is to be told about actors, in words."""
        usual = self._usual_length()
        told = []
        for name, source in self.sources.items():
            if source.out:
                told.append(
                    f"{name}: its gradients point against the others' (mean cosine {source.mean:.3f}); left out"
                )
            elif source.count >= LEAST and source.length > TOO_LONG * usual:
                told.append(f"{name}: its gradients are {source.length / usual:.0f} times as long as is usual; clipped")
        return told

    def _compare(self, source: _Source, sample: Tensor, part: float) -> None:
        decay = 1 - 1 / HORIZON
        source.own.mul_(decay ** (self._judged - source.seen))
        others = self._sum - source.own
        length = float(torch.linalg.vector_norm(others))
        if length > 0.0 and len(self.sources) > 2:
            cosine = float(torch.dot(sample, others)) / (part * length)
            source.count += 1
            weight = max(1 / source.count, 1 / REMEMBERED)
            source.mean += weight * (cosine - source.mean)
            source.square += weight * (cosine**2 - source.square)
            self._decide(source)
        self._judged += 1
        source.seen = self._judged
        self._sum.mul_(decay)
        source.own.mul_(decay)
        if not source.out:
            self._sum.add_(sample, alpha=1 / part)
            source.own.add_(sample, alpha=1 / part)

    def _decide(self, source: _Source) -> None:
        if source.out:
            source.out = source.mean < 0
            return
        if source.count < LEAST or source.sigmas > -SIGMAS:
            return
        others = [one for one in self.sources.values() if one is not source and not one.out and one.count >= LEAST]
        if len(others) < 2:
            return
        usual = sorted(others, key=lambda one: one.mean)[len(others) // 2]
        source.out = usual.sigmas > SIGMAS and source.mean < -usual.mean / 2

    def _usual_length(self) -> float:
        """Of one rollout's gradient: the median over the actors; infinite where there are too few to judge by."""
        lengths = [one.length for one in self.sources.values() if one.length]
        return median(lengths) if len(lengths) > 2 else math.inf

    def _source(self, name: str) -> _Source:
        source = self.sources.get(name) or _Source(torch.zeros_like(self._sum), self._judged)
        self.sources[name] = source
        return source
