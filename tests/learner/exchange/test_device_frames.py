"""Pictures that stay on a device against the same that are stacked on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from common.rl.action_spec import discrete
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout_buffer import RolloutBuffer
from common.wire.bodies.observations import StepBatch
from learner.exchange.device_frames import DeviceFrames, DeviceGroupBuffer, Rows
from learner.exchange.rollout_buffer import GroupBuffer
from tests.helpers.fake_device import NotHost

ENVS, STEPS = 3, 5


def spec_of(*shape: int) -> ObservationSpec:
    return ObservationSpec(shape, "pixels", int(np.prod(shape)))


def buffer_of(spec: ObservationSpec) -> RolloutBuffer:
    rewards = RewardTransform(ENVS)
    return RolloutBuffer(spec, discrete(3), num_envs=ENVS, capacity=STEPS, state_size=0, rewards=rewards)


def seen_of(rng: np.random.Generator, channels: int) -> StepBatch:
    frames = rng.integers(256, size=(ENVS, channels, 4, 4), dtype=np.uint8)
    flags = rng.random((2, ENVS)) < 0.7
    return StepBatch(frames, rng.random(ENVS).astype(np.float32), flags[0], flags[1])


@pytest.mark.parametrize(("depth", "padded", "channels"), [(1, False, 2), (4, False, 1), (4, True, 1), (3, True, 2)])
def test_what_is_acted_on_and_learnt_from_is_as_the_host_stacks_it(depth: int, padded: bool, channels: int) -> None:
    rng, stack = np.random.default_rng(0), FrameStack(depth, padded=padded)
    frames = DeviceFrames(NotHost(), stack)
    here = [GroupBuffer(buffer_of(spec_of(depth * channels, 4, 4)), stack, rng) for _ in range(2)]
    there = [DeviceGroupBuffer(buffer_of(spec_of(0)), stack, rng, frames) for _ in range(2)]
    rollouts = 0
    for t in range(4 * STEPS):
        for one, other in zip(here, there, strict=True):
            seen = seen_of(rng, channels)
            if t in (0, 7):
                one.begin(seen)
                other.begin(seen)
                continue
            acted: Any = (np.full(ENVS, t % 3), np.zeros(ENVS, np.float32), t, one.buffer.state)
            one.acted(*acted)
            other.acted(*acted)
            ours, theirs = other.stepped(seen), one.stepped(seen)
            assert (ours is None) == (theirs is None)
            if ours is None or theirs is None:
                continue
            rollouts += 1
            found: Any = ours.rollout.observations
            assert isinstance(found, Rows)
            assert found.shape[:2] == (STEPS + 1, ENVS)
            assert np.array_equal(found.tensor().numpy(), theirs.rollout.observations)
            assert np.array_equal(ours.rollout.rewards, theirs.rollout.rewards)
            assert ours.version == theirs.version
        if t % 3:  # else more than one step waits
            tensors = frames.tensor([other.row for other in there])
            for tensor, one in zip(tensors, here, strict=True):
                assert np.array_equal(tensor.numpy(), one.buffer.observations)
    assert rollouts >= 4


def test_frames_go_up_where_acting_sees_them_whoever_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that comes before the one before it was acted on sends that up, out of turn."""
    transport, asked = NotHost(), ["training"]
    up = transport.up

    @contextmanager
    def acting() -> Iterator[None]:
        asked.append("acting")
        yield
        asked.pop()

    def noted(arrays: Any) -> Any:
        assert asked[-1] == "acting"
        return up(arrays)

    monkeypatch.setattr(transport, "acting", acting)
    monkeypatch.setattr(transport, "up", noted)
    frames = DeviceFrames(transport, FrameStack(2))
    picture, flags = np.zeros((2, 1, 4, 4), np.uint8), np.ones(2, np.bool_)
    last = frames.add(frames.add(None, picture, flags), picture, flags)
    assert [tuple(tensor.shape) for tensor in frames.tensor([last])] == [(2, 2, 4, 4)]


def test_all_that_wait_go_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = NotHost()
    frames = DeviceFrames(transport, FrameStack(2))
    ups: list[int] = []
    up = transport.up
    monkeypatch.setattr(transport, "up", lambda arrays: ups.append(len(arrays[0])) or up(arrays))
    rows = [frames.add(None, np.zeros((2, 1, 4, 4), np.uint8), np.ones(2, np.bool_)) for _ in range(5)]
    assert ups == []
    assert [tuple(tensor.shape) for tensor in frames.tensor(rows)] == [(2, 2, 4, 4)] * 5
    frames.tensor(rows)
    assert ups == [10]
    assert all(isinstance(row.tensor, torch.Tensor) and row.before is None for row in rows)
