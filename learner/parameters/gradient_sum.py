"""Checks packed gradients and adds them up, on the CPU where they arrive, until the next optimizer step."""

import math

import numpy as np
import torch

from common.settings.codec_names import TOP_K
from common.wire.codecs.arithmetic import add_times, square_sum
from common.wire.codecs.registry import PackedCodec, longest, make
from common.wire.frames import Buffer
from learner.parameters.agreement import Agreement
from learner.parameters.delay_compensation import DelayCompensation
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.step_result import NOTHING, StepResult
from learner.parameters.weights import Weights

UNBOUNDED = GradientBound()
"""For gradients that are no longer as an actor sent them."""


class GradientSum:
    """The sum of the gradients for the next step of the weights."""

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
        """`average`: take steps with the mean of the gradients instead of their normalised sum.

        `compensation`: corrects each gradient before it is added. `top_k`: fraction of the elements that top-k sends.
        `bound`: how long a gradient may be. `agreement`: judges each gradient by the others'.
        """
        size = self._size = weights.vector.numel()
        self.weights = weights
        self._average = average
        self._compensation = compensation
        self._top_k = top_k
        self._bound = bound or GradientBound()
        self._agreement = agreement
        self._codecs: dict[str, PackedCodec] = {}
        self._scratch = np.zeros(size, np.float32)
        self._sum = np.zeros(size, np.float32)
        """The sum in units of the first gradient's factor, so that the first one is neither multiplied nor added."""
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
        """Length of the longest body, whatever its codec."""
        return longest(self._size, self._top_k)

    def weights_restored(self) -> None:
        """Note that earlier weights were restored; gradients of weights before them can no longer be compensated."""
        if self._compensation is not None:
            self._compensation.begin(self.weights.vector)

    def named(self) -> list[str]:
        """Return, in words, which actors' gradients do not fit the others'."""
        return [] if self._agreement is None else self._agreement.named()

    def add(
        self,
        body: Buffer,
        codec: str,
        *,
        weight: float,
        count: int = 1,
        lag: int = 0,
        source: str = "",
        summed: bool = False,
    ) -> None:
        """Add `weight` times a packed gradient, itself the sum over `count` rollouts; `lag` must be at most `reach`.

        `source`: the name of the actor, or of the relay whose sum it is (`summed`).

        Raises CodecError, with nothing added, if the body does not decode, holds NaN or infinity, or is longer than any
        honest gradient; AgainstOthersError for the gradient of an actor that is left out.
        """
        gradient = self._codec(codec).read(body, self._scratch)
        norm = math.sqrt(square_sum(gradient))
        self._bound.check(norm, codec, count, self._size, summed=summed)
        factor = weight
        if self._compensation is not None or self._agreement is not None:
            if gradient is not self._scratch:
                np.copyto(self._scratch, gradient)
            gradient = self._scratch
            factor *= self._judged(torch.from_numpy(gradient), norm, codec, count, lag, source)
        if self._gradients:
            add_times(self._sum, gradient, factor / self._unit)
        elif gradient is self._scratch:
            self._sum, self._scratch, self._unit = self._scratch, self._sum, factor
        else:
            np.copyto(self._sum, gradient)
            self._unit = factor
        self._gradients += 1
        self._rollouts += count
        self._weight += weight

    def _judged(self, gradient: torch.Tensor, norm: float, codec: str, count: int, lag: int, source: str) -> float:
        """Compensate `gradient`, of this norm, in place; return the factor by which it is to be shortened."""
        if self._compensation is not None:
            self._compensation.apply(gradient, lag)
            UNBOUNDED.check(math.sqrt(square_sum(gradient.numpy())), codec, count, self._size)
        return 1.0 if self._agreement is None else self._agreement.judge(source, gradient, norm, count)

    def step(self, *, scale: float, frames: int) -> StepResult:
        """Take one optimizer step with the sum; without a gradient, do nothing. The actors compute the statistics.

        The step size is multiplied by `scale`, the mean weight, and the sum is divided by it: for SGD the result is the
        weighted sum itself, and for optimizers that normalise the gradient the step shrinks as it should. The same is
        done with the root of the number of rollouts: the sum divided by it has the spread of one gradient, and the step
        is as long as the single steps together (the square root rule, Malladi et al. 2022,
        https://arxiv.org/abs/2205.10287). Otherwise a learner that adds gradients up because it is short of time would
        learn less from each. With `average`, the gradient is the plain mean, and the step size stays as it is.
        """
        if not self._gradients:
            return NOTHING
        root = 1.0 if self._average else math.sqrt(self._rollouts)
        divisor = (self._rollouts if self._average else root) * self._weight / self._gradients / self._unit
        if divisor != 1.0:
            np.multiply(self._sum, 1.0 / divisor, out=self._sum)
        transport = self.weights.transport
        gradient = torch.from_numpy(self._sum) if transport.is_host else transport.up([self._sum])[0]
        self.weights.step(gradient, scale=scale * root, frames=frames)
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
