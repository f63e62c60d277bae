"""Agreement: keeps one bad actor from steering the sum, by clipping long gradients and leaving out contrary ones.

A step adds too few gradients (`learner.exchange.step_rule`) to take a median of them. So each gradient is judged by the
ones before it. Its length is clipped to twice the median, over the actors, of their usual lengths. Its direction is
compared with the decayed sum of the others' unit gradients. For an honest actor, the mean cosine is that of all, which
is above 0 as long as there is something to learn; for an actor that flips the sign, it is as far below 0. Single
cosines are mostly noise, so an actor is left out only when its mean cosine over many gradients, and that of the others,
are both several standard errors from 0. This takes four actors: of three, one that flips the sign cancels, for each of
the other two, the third one's gradients.

An actor's own part in the sum is taken out before the comparison: its successive rollouts are alike, so it would agree
with itself.
"""

import math
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor

from common.errors import AgainstOthersError
from learner.bounded_dict import BoundedDict

SAMPLE = 2**14
"""Most elements of a gradient that are compared; they are evenly spaced."""
HORIZON = 200
"""Horizon of the decayed sum, in gradients of all actors."""
REMEMBERED = 300
"""Gradients of an actor over which its mean cosine is taken."""
LEAST = 20
"""Gradients of an actor needed before it is judged."""
SIGMAS = 4.0
"""Standard errors from 0 that count as certain. They are computed as if cosines were independent, which those of
successive rollouts are not."""
LONG = 2.0
"""Multiple of the median length to which gradients are clipped."""
TOO_LONG = 3.0
"""Multiple of the median length from which on an actor is reported."""
SOURCES = 256
"""Most actors that are remembered: those that sent last."""


@dataclass
class _Source:
    own: Tensor
    """The actor's part in the sum, as it was at the judgement `seen`."""
    seen: int = 0
    """Number of the judgement, over all actors, at which `own` was last updated."""
    count: int = 0
    mean: float = 0.0
    square: float = 0.0
    """Mean cosine with the others, and mean of its square, over REMEMBERED gradients."""
    length: float = 0.0
    """Usual norm of one rollout's gradient."""
    out: bool = False
    """Whether the actor's gradients are left out."""

    @property
    def sigmas(self) -> float:
        """Distance of the mean cosine from 0, in standard errors."""
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
        """Return the factor on a gradient of this norm, a sum over `count` rollouts.

        Raises AgainstOthersError if the actor's gradients are left out.
        """
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
        """Return, in words, which actors' gradients are left out or clipped."""
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
        """Return the median over the actors of their usual length of one rollout's gradient; infinite for too few."""
        lengths = [one.length for one in self.sources.values() if one.length]
        return median(lengths) if len(lengths) > 2 else math.inf

    def _source(self, name: str) -> _Source:
        source = self.sources.get(name) or _Source(torch.zeros_like(self._sum), self._judged)
        self.sources[name] = source
        return source
