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

    def unstacked(self, first: Array, newest: Array, restarts: NDArray[np.bool_], older: Array) -> StackedFrames:
        """The observations of T steps of B environments, time first, from their single frames.

        first: (B, *stack). newest: (T, B, *frame): of each later observation. restarts: (T, B): those whose older
        frames are not those of the observation before, but the next in `older` (R, depth - 1 frames joined).
        """
        steps, count = newest.shape[:2]
        begin, end = count * self.depth, count * (self.depth + steps)
        index = np.empty((steps + 1, count, self.depth), np.int32)
        index[0] = np.arange(begin).reshape(count, self.depth)
        index[1:, :, -1] = np.arange(begin, end).reshape(steps, count)
        of_restart = np.zeros((steps, count, self.depth - 1), np.int32)
        of_restart[restarts] = np.arange(end, end + len(older) * (self.depth - 1)).reshape(len(older), -1)
        for t in range(steps):
            index[t + 1, :, :-1] = np.where(restarts[t, :, None], of_restart[t], index[t, :, 1:])
        return StackedFrames((first, newest, older), index)

    def _parts(self, stacks: Array) -> Array:
        """A view (B, depth, ...)."""
        count, *shape = stacks.shape
        return stacks.reshape(count, self.depth, shape[0] // self.depth, *shape[1:]) if shape else stacks[:, None]


@dataclass(frozen=True, eq=False)
class StackedFrames:
    """Observations (T + 1, B, *stack), each of their frames once."""

    parts: tuple[Array, ...]
    """Frames; those of each array one after the other, joined or not, then those of the next."""
    index: NDArray[np.int32]
    """(T + 1, B, depth): which of the frames each observation is made of."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.index.shape[:2], *self.parts[0].shape[1:])

    @property
    def frame(self) -> tuple[int, ...]:
        """The shape of one frame."""
        first, *rest = self.parts[0].shape[1:]
        return (first // self.index.shape[2], *rest)
