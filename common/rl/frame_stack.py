"""Stacked frames: how they are joined, and what a stack holds when an episode begins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class FrameStack:
    """The last `depth` frames joined along their first axis, oldest first.

    (n,) becomes (depth * n,), (C, H, W) becomes (depth * C, H, W), a scalar becomes (depth,). A stack begins with an
    episode's first frame repeated or, with `padded`, with zeros before it, as in ALE's own vector environment.
    """

    depth: int
    padded: bool = False

    def push(self, stacks: Array, before: Array, frames: Array) -> None:
        """Write into `stacks` (B, *shape) those of the step before without their oldest frame, then `frames` (B, ...).

        before: (B, *shape), may be `stacks` itself.
        """
        parts = self._parts(stacks)
        parts[:, :-1] = self._parts(before)[:, 1:]
        parts[:, -1] = frames.reshape(parts[:, -1].shape)

    def begin(self, stacks: Array, frames: Array, fresh: NDArray[np.bool_]) -> None:
        """Where `fresh` (B,) an episode begins with the frame in `frames` (B, ...)."""
        if fresh.any():
            parts = self._parts(stacks)
            newest = frames.reshape(parts[:, -1].shape)[fresh, None]
            parts[fresh, :-1] = 0 if self.padded else newest
            parts[fresh, -1:] = newest

    def _parts(self, stacks: Array) -> Array:
        """A view (B, depth, ...)."""
        count, *shape = stacks.shape
        return stacks.reshape(count, self.depth, shape[0] // self.depth, *shape[1:]) if shape else stacks[:, None]
