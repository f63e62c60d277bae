"""Image observations on the learner's device: each frame is copied there once, stacked, acted on, then learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.frame_stack import FrameStack
from common.rl.rollout_buffer import RolloutBuffer
from common.wire.bodies.observations import StepBatch
from learner.exchange.rollout_buffer import Completed, GroupBuffer
from learner.parameters.device_trainer import Deferred
from learner.parameters.transport import Transport


class Row:
    """The stacked observations of a group, (B, *stack)."""

    def __init__(self, before: Row | None, frames: NDArray[np.uint8], fresh: NDArray[np.bool_]) -> None:
        """before: the previous row; None if all episodes begin. frames: (B, *frame), the newest. fresh: (B,), which of
        them begin an episode.
        """
        self.before = before
        self.frames = frames
        self.fresh = fresh
        self.tensor: Tensor | None = None
        """The stacked observations on the device; None until they are there."""


class DeviceFrames:
    """Collects rows, to copy them to the device together."""

    def __init__(self, transport: Transport, stack: FrameStack) -> None:
        self._transport = transport
        self._stack = stack
        self._waiting: list[Row] = []

    def add(self, before: Row | None, frames: NDArray[np.uint8], fresh: NDArray[np.bool_]) -> Row:
        if before is not None and before.tensor is None:
            self.flush()
        row = Row(before, frames, fresh)
        self._waiting.append(row)
        return row

    def flush(self) -> None:
        """Copy all waiting rows to the device in one copy, and stack them there.

        Both happen on the stream that acts, even when this is called outside of a pass.
        """
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        parts = [np.concatenate([row.frames for row in rows]), np.concatenate([row.fresh for row in rows])]
        with self._transport.acting():
            newest, fresh = self._transport.up(parts)
            stacks = newest if self._stack.depth == 1 else self._stacked(rows, newest, fresh)
        for row, tensor in zip(rows, torch.split(stacks, [len(row.frames) for row in rows]), strict=True):
            row.tensor, row.before = tensor, None

    def tensor(self, rows: Sequence[Row]) -> list[Tensor]:
        """Return the stacked observations of these rows, copying them to the device if they are not there yet."""
        self.flush()
        found = [row.tensor for row in rows]
        assert all(tensor is not None for tensor in found)
        return [tensor for tensor in found if tensor is not None]

    def _stacked(self, rows: list[Row], newest: Tensor, fresh: Tensor) -> Tensor:
        """Stack N newest frames as `FrameStack.push` and `begin` do; return (N, *stack)."""
        depth, (channels, *rest) = self._stack.depth, newest.shape[1:]
        older = (depth - 1) * channels
        blank = newest.new_zeros(1, older, *rest)
        before = [
            blank.expand(len(row.frames), *blank.shape[1:])
            if row.before is None or row.before.tensor is None
            else row.before.tensor[:, channels:]
            for row in rows
        ]
        begun = blank if self._stack.padded else newest.repeat(1, depth - 1, *(1 for _ in rest))
        kept = torch.where(fresh.view(-1, *(1 for _ in newest.shape[1:])), begun, torch.cat(before))
        return torch.cat([kept, newest], dim=1)


class Rows(Deferred):
    """The observations of a rollout, which are on the device already or will be copied there."""

    def __init__(self, frames: DeviceFrames, rows: Sequence[Row]) -> None:
        self._frames = frames
        self._rows = rows
        self.shape = (len(rows), len(rows[0].frames))

    def tensor(self) -> Tensor:
        return torch.stack(self._frames.tensor(self._rows))


class DeviceGroupBuffer(GroupBuffer):
    """A `GroupBuffer` whose image observations are kept on the device; those of its `buffer` are empty."""

    def __init__(
        self, buffer: RolloutBuffer, stack: FrameStack, rng: np.random.Generator, frames: DeviceFrames
    ) -> None:
        super().__init__(buffer, stack, rng)
        self._frames = frames
        self._rows: list[Row] = []

    @property
    def row(self) -> Row:
        """The observations that the next actions are for."""
        return self._rows[-1]

    def stepped(self, seen: StepBatch) -> Completed | None:
        rows = self._rows
        completed = super().stepped(seen)
        if completed is None:
            return None
        observations: Any = Rows(self._frames, rows)
        return completed._replace(rollout=replace(completed.rollout, observations=observations))

    def _first(self, frames: NDArray[Any]) -> None:
        self._rows = [self._frames.add(None, frames, np.ones(len(frames), np.bool_))]

    def _next(self, frames: NDArray[Any], fresh: NDArray[np.bool_]) -> None:
        self._rows.append(self._frames.add(self.row, frames, fresh))

    def _carry_on(self) -> None:
        super()._carry_on()
        self._rows = [self.row]
