"""The target network of algorithms that learn values: the weights of some frames ago, which targets are made of.

See Mnih et al. 2016, https://arxiv.org/abs/1602.01783, algorithms 1 and S2.
"""

from __future__ import annotations

from torch import Tensor

TARGET = "target"
"""Its name in a checkpoint, beside the optimizer's tensors."""


class Target:
    """A copy of the weights, renewed with the first step beyond each multiple of so many frames of the run."""

    def __init__(self, vector: Tensor, every: int, clock: Tensor, frames: int) -> None:
        """`vector` (size,) is the copy, on the weights' device; `clock` (1,) is told the run's frames, now `frames`."""
        self.vector = vector
        self._every, self._clock = every, clock
        self._clock.fill_(frames)
        self._period = frames // every

    def stepped(self, weights: Tensor, frames: int) -> None:
        """`weights` (size,) are the newest ones, `frames` into the run."""
        self._clock.fill_(frames)
        if frames // self._every > self._period:
            self._period = frames // self._every
            self.vector.copy_(weights)
