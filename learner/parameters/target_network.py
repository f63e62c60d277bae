"""The target network of algorithms that learn values: a delayed copy of the weights, from which targets are computed.

See Mnih et al. 2016, https://arxiv.org/abs/1602.01783, algorithms 1 and S2.
"""

from __future__ import annotations

from torch import Tensor

TARGET = "target"
"""Its name in a checkpoint, beside the optimizer's tensors."""


class TargetNetwork:
    """A copy of the weights, renewed by the first step beyond each multiple of a number of frames."""

    def __init__(self, vector: Tensor, every: int, clock: Tensor, frames: int) -> None:
        """Start at `frames` of the run.

        Args:
            vector: the copy, (size,), on the device of the weights.
            every: frames between two renewals.
            clock: (1,), set to the frames of the run with every step.
            frames: frames of the run so far.
        """
        self.vector = vector
        self._every = every
        self._clock = clock
        self._clock.fill_(frames)
        self._period = frames // every

    def stepped(self, weights: Tensor, frames: int) -> None:
        """`weights` (size,) are the newest ones, `frames` into the run."""
        self._clock.fill_(frames)
        if frames // self._every > self._period:
            self._period = frames // self._every
            self.vector.copy_(weights)
