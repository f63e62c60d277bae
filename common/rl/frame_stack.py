"""Stacked frames: how they are joined, and what a stack holds when an episode begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class FrameStack:
    """The last `depth` frames joined along their first axis, oldest first.

    (n,) becomes (depth * n,), (C, H, W) becomes (depth * C, H, W), a scalar becomes (depth,). When an episode begins,
    its stack holds the first frame repeated or, with `padded`, zeros before it, as in ALE's own vector environment.
    """

    depth: int
    padded: bool = False

    def push(self, stacks: Array, before: Array, frames: Array) -> None:
        """Write new stacks into `stacks` (B, *shape): those of `before` without their oldest frame, then `frames`.

        before: (B, *shape), the stacks of the step before; may be `stacks` itself. frames: (B, ...).
        """
        parts = self._parts(stacks)
        parts[:, :-1] = self._parts(before)[:, 1:]
        parts[:, -1] = frames.reshape(parts[:, -1].shape)

    def begin(self, stacks: Array, frames: Array, fresh: NDArray[np.bool_]) -> None:
        """Write the first stack of an episode where `fresh` (B,) is True; `frames` (B, ...) has its first frame."""
        if fresh.any():
            parts = self._parts(stacks)
            newest = frames.reshape(parts[:, -1].shape)[fresh, None]
            parts[fresh, :-1] = 0 if self.padded else newest
            parts[fresh, -1:] = newest

    def unstacked(self, first: Array, newest: Array, restarts: NDArray[np.bool_], older: Array) -> StackedFrames:
        """Return the observations of T steps of B environments, time first, as indices into their single frames.

        first: (B, *stack), the first observations. newest: (T, B, *frame), the newest frame of each later one.
        restarts: (T, B) bool, the later observations whose older frames are not those of the observation before; these
        frames are in `older` (R, depth - 1 frames joined), in order.
        """
        steps, count = newest.shape[:2]
        begin, end = count * self.depth, count * (self.depth + steps)
        index = np.empty((steps + 1, count, self.depth), np.int32)
        index[0] = np.arange(begin).reshape(count, self.depth)
        index[1:, :, -1] = np.arange(begin, end).reshape(steps, count)
        of_restart = np.zeros((steps, count, self.depth - 1), np.int32)
        of_restart[restarts] = np.arange(end, end + len(older) * (self.depth - 1)).reshape(len(older), self.depth - 1)
        for t in range(steps):
            index[t + 1, :, :-1] = np.where(restarts[t, :, None], of_restart[t], index[t, :, 1:])
        return StackedFrames((first, newest, older), index)

    def _parts(self, stacks: Array) -> Array:
        """Return a view (B, depth, ...) of the stacks."""
        count, *shape = stacks.shape
        return stacks.reshape(count, self.depth, shape[0] // self.depth, *shape[1:]) if shape else stacks[:, None]


@dataclass(frozen=True, eq=False)
class StackedFrames:
    """Observations (T + 1, B, *stack) in which each frame is stored once."""

    parts: tuple[Array, ...]
    """Arrays of frames, joined or not; frames are numbered through the first array, then on through the next."""
    index: NDArray[np.int32]
    """(T + 1, B, depth): the numbers of the frames that make up each observation."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.index.shape[:2], *self.parts[0].shape[1:])

    @property
    def frame(self) -> tuple[int, ...]:
        """The shape of one frame."""
        first, *rest = self.parts[0].shape[1:]
        return (first // self.index.shape[2], *rest)
