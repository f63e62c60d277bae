"""Packed gradients, checked and added up on the CPU, where they arrive, until the next optimizer step."""

import math

import torch

from common.settings.codec_names import NAMES, TOP_K
from common.wire.codecs.registry import PackedCodec, make
from common.wire.frames import Buffer
from learner.parameters.agreement import Agreement
from learner.parameters.delay_compensation import DelayCompensation
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.step_result import NOTHING, StepResult
from learner.parameters.weights import Weights

UNBOUNDED = GradientBound()
"""For what is no longer a gradient as an actor sent it."""


class GradientSum:
    """The gradients that the next step of the weights is taken with."""

    def __init__(
        self,
        weights: Weights,
        *,
        average: bool = False,
        compensation: DelayCompensation | None = None,
        top_k: float = TOP_K,
        bound: GradientBound | None = None,
        agreement: Agreement | None = None,
    ) -> None:
        """`average`: a step is taken with the mean of the gradients instead of their normalised sum.

        `compensation` corrects each gradient before it is added; `top_k`: fraction of the elements that top-k sends.
        `bound`: how long a gradient may be; `agreement` judges it by the others'.
        """
        size = self._size = weights.vector.numel()
        self._device = weights.vector.device
        self.weights = weights
        self._average = average
        self._compensation = compensation
        self._top_k = top_k
        self._bound = bound or GradientBound()
        self._agreement = agreement
        self._codecs: dict[str, PackedCodec] = {}
        self._decoded = torch.zeros(size)
        self._sum = torch.zeros(size)
        """In units of the first gradient's factor, so that the first need not be multiplied, nor added to anything."""
        self._unit = 1.0
        self._gradients = 0
        self._rollouts = 0
        self._weight = 0.0

    @property
    def reach(self) -> int | None:
        """Largest lag of a gradient that can be added; None: any."""
        return None if self._compensation is None else self._compensation.reach

    @property
    def max_bytes(self) -> int:
        """Length that no body exceeds, whatever its codec."""
        return max(self._codec(name).max_bytes for name in NAMES)

    def weights_restored(self) -> None:
        """Earlier weights are in place; gradients of those before cannot be compensated any more."""
        if self._compensation is not None:
            self._compensation.begin(self.weights.vector)

    def named(self) -> list[str]:
        """Actors whose gradients do not fit the others', in words."""
        return [] if self._agreement is None else self._agreement.named()

    def add(self, body: Buffer, codec: str, *, weight: float, count: int = 1, lag: int = 0, source: str = "") -> None:
        """Adds `weight` times a packed gradient, itself the sum over `count` rollouts; `lag` is at most `reach`.

        `source`: the name of the actor.

        Raises CodecError, with nothing added, when the body does not decode, holds NaN or infinity, or is longer than
        any honest gradient; AgainstOthersError for the gradient of an actor that is left out.
        """
        self._codec(codec).decode(body, self._decoded.numpy())
        norm = _norm(self._decoded)
        self._bound.check(norm, codec, count, self._size)
        if self._compensation is not None:
            self._compensation.apply(self._decoded, lag)
            UNBOUNDED.check(_norm(self._decoded), codec, count, self._size)
        shortened = 1.0
        if self._agreement is not None:
            shortened = self._agreement.judge(source, self._decoded, norm, count)
        factor = weight * shortened
        if self._gradients:
            self._sum.add_(self._decoded, alpha=factor / self._unit)
        else:
            self._sum, self._decoded, self._unit = self._decoded, self._sum, factor
        self._gradients += 1
        self._rollouts += count
        self._weight += weight

    def step(self, *, scale: float, frames: int) -> StepResult:
        """One optimizer step with the sum; without a gradient nothing happens. Returns no statistics: actors have them.

        The step size is multiplied by `scale`, the mean weight, and the sum divided by it: for SGD the result is the
        weighted sum itself, and for optimizers that normalise the gradient the step shrinks as it should. The same is
        done with the root of the number of gradients: their sum has the spread of one gradient, and the step is as long
        as theirs together (the square root rule, Malladi et al. 2022, https://arxiv.org/abs/2205.10287). Otherwise a
        learner that adds gradients up because it is short of time would learn less from each. With `average` the
        gradient is the plain mean, and the step size stays as it is.
        """
        if not self._gradients:
            return NOTHING
        root = 1.0 if self._average else math.sqrt(self._rollouts)
        divisor = (self._rollouts if self._average else root) * self._weight / self._gradients / self._unit
        gradient = self._sum if divisor == 1.0 else self._sum.div_(divisor)
        self.weights.step(gradient.to(self._device, non_blocking=True), scale=scale * root, frames=frames)
        if self._compensation is not None:
            self._compensation.stepped(self.weights.vector)
        self._gradients = 0
        self._rollouts = 0
        self._weight = 0.0
        return NOTHING

    def _codec(self, name: str) -> PackedCodec:
        if name not in self._codecs:
            self._codecs[name] = make(name, self._size, self._top_k)
        return self._codecs[name]


def _norm(vector: torch.Tensor) -> float:
    """L2, in one pass: NaN and infinity survive in it. It is as exact as `vector_norm`, and faster."""
    return math.sqrt(torch.dot(vector, vector))
