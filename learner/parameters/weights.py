"""The weights and what changes them: packed gradients in, one optimizer step, packed weights out."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import torch
from torch import Tensor

from common.errors import CodecError
from common.rl.moments import Moments, Plain
from common.settings.codec_names import TOP_K
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.packed import PackedCodec
from common.wire.codecs.registry import make
from common.wire.frames import Buffer
from learner.parameters.delay_compensation import Compensation
from learner.parameters.keyframe import Keyframe
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.running_stats import Running
from learner.parameters.target_network import TARGET, Target

LARGEST_NORM = 1e16
"""Of one gradient: squares of a sum of many such still are float32 numbers, and the optimizer takes squares."""


class ParameterStore:
    """One flat float32 vector on the optimizer's device; gradients are added up on the CPU, where they arrive."""

    def __init__(
        self,
        vector: Tensor,
        optimizer: FlatOptimizer,
        *,
        delay_seconds: float = 0.0,
        average: bool = False,
        compensation: Compensation | None = None,
        top_k: float = TOP_K,
        extras: Tensor | None = None,
        running: Running | None = None,
        target: Target | None = None,
    ) -> None:
        """`vector` is the one that `optimizer` steps.

        `delay_seconds` makes every step last at least so long; `average`: a step is taken with the mean of what was
        added; `compensation`: gradients are brought to the newest weights before they are added; `top_k`: the fraction
        that codec takes; `extras`: the model's, on the CPU; `running`: writes them, between two versions; `target`: the
        target network's parameters, if it has one.
        """
        self.vector, self.optimizer = vector, optimizer
        self.extras = torch.zeros(0) if extras is None else extras
        self.running, self.target = running, target
        self._delay, self._average, self._compensation = delay_seconds, average, compensation
        self._top_k = top_k
        self._codecs: dict[str, PackedCodec] = {}
        self._incoming = torch.zeros(vector.numel())
        self._sum = torch.zeros(vector.numel())
        self._added = 0
        self._rollouts = 0
        self._weights = 0.0
        self._bodies: dict[str, bytes] = {}
        self._keyframe: Keyframe | None = None
        self._delta: tuple[bytes, bool] | None = None

    @property
    def reach(self) -> int | None:
        """Largest lag of a gradient that can be added; None: any."""
        return None if self._compensation is None else self._compensation.reach

    def add(self, body: Buffer, codec: str, weight: float, count: int = 1, lag: int = 0) -> None:
        """Adds `weight` times a packed gradient, itself the sum of `count`, to the next step.

        `lag`, at most `reach`: steps taken since the weights that it was computed on.

        Raises CodecError, with nothing added, when the body does not decode, holds NaN or infinity, or is so large
        that the optimizer's arithmetic would overflow.
        """
        self._codec(codec).decode(body, self._incoming)
        if self._compensation is not None:
            self._compensation.apply(self._incoming, lag)
        # One pass over the vector: NaN and infinity survive in the norm.
        norm = float(torch.linalg.vector_norm(self._incoming))
        if not math.isfinite(norm):
            raise CodecError("not finite (NaN or infinity)")
        if norm > LARGEST_NORM:
            raise CodecError(f"of norm {norm:.3g}, at most {LARGEST_NORM:g} is taken")
        self._sum.add_(self._incoming, alpha=weight)
        self._added += 1
        self._rollouts += count
        self._weights += weight

    def observe(self, moments: Moments) -> None:
        """Takes in what rollouts saw; it counts from the next step's version on."""
        if self.running is not None:
            self.running.add(moments)

    def step(self, *, scale: float, frames: int) -> Mapping[str, float]:
        """One optimizer step with the sum of what was added; nothing happens without.

        The step size is multiplied by `scale`, the mean weight, and the sum divided by it: for SGD that is the
        weighted sum itself, and for optimizers that normalise the gradient the step shrinks as it should. Likewise
        with the root of the number of gradients: their sum has the spread of one, and the step is as long as theirs
        together (the square root rule, Malladi et al. 2022, https://arxiv.org/abs/2205.10287). Without it a learner
        that adds gradients up, for want of time, would learn that much less from each. A store that averages takes
        the plain mean and leaves the step size alone.
        """
        if not self._added:
            return {}
        started = time.monotonic()
        root = 1.0 if self._average else math.sqrt(self._rollouts)
        divisor = (self._rollouts if self._average else root) * self._weights / self._added
        gradient = self._sum.div_(divisor).to(self.vector.device, non_blocking=True)
        self.optimizer.step(gradient, scale=scale * root, frames=frames)
        if self._compensation is not None:
            self._compensation.stepped(self.vector)
        if self.target is not None:
            self.target.stepped(self.vector, frames)
        self._sum.zero_()
        self._added, self._rollouts, self._weights = 0, 0, 0.0
        self._stepped(started)
        return {}

    def _stepped(self, started: float) -> None:
        """What was packed of the weights before is old; a step lasts as long as it is to."""
        if self.running is not None:
            self.running.refresh()
        self._bodies.clear()
        self._delta = None
        if self._delay:
            time.sleep(max(0.0, self._delay - (time.monotonic() - started)))

    @property
    def moments(self) -> Plain | None:
        """Of the running statistics, for a checkpoint; None where there are none."""
        return None if self.running is None else self.running.saved()

    def body(self, form: str) -> bytes:
        """The weights as sent, `fp32` or `fp16`; made once per version."""
        if form not in self._bodies:
            vectors = self._vectors()
            packing = WeightsFormat(form, self.vector.numel(), len(vectors), self.extras.numel())
            self._bodies[form] = packing.pack(vectors, self.extras)
        return self._bodies[form]

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps besides the weights: the optimizer's statistics and the target network."""
        return self.optimizer.state() | ({} if self.target is None else {TARGET: self.target.vector})

    def keyframe(self, form: str, version: int) -> bytes:
        """Takes the weights, which are of this version, for those that deltas are against; their body."""
        self._keyframe = Keyframe(form, version, self._vectors(), self.extras)
        self._delta = None
        return self._keyframe.body

    def delta(self) -> tuple[bytes, bool]:
        """The weights against the keyframe, made once per version, and whether another keyframe is due."""
        if self._keyframe is None:
            raise RuntimeError("there is no keyframe yet")
        if self._delta is None:
            self._delta = self._keyframe.delta(self._vectors(), self.extras)
        return self._delta

    def _vectors(self) -> list[Tensor]:
        """As they travel."""
        vectors = [self.vector] if self.target is None else [self.vector, self.target.vector]
        return [vector.detach().cpu() for vector in vectors]

    @property
    def finite(self) -> bool:
        """Whether the weights are still numbers."""
        return bool(torch.isfinite(self.vector).all())

    def _codec(self, name: str) -> PackedCodec:
        if name not in self._codecs:
            self._codecs[name] = make(name, self.vector.numel(), self._top_k)
        return self._codecs[name]
