from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.rl.action_spec import discrete
from common.rl.environments.wrappers import StackedEnvironments
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout_buffer import RolloutBuffer
from common.wire.bodies.observations import StepBatch
from learner.exchange.rollout_buffer import Completed, GroupBuffer
from tests.helpers.environments import Scripted

SPEC = ObservationSpec((2,), "box", 2)


def memory_of(count: int = 2, steps: int = 3, spec: ObservationSpec = SPEC, **changed: Any) -> GroupBuffer:
    stack = changed.pop("stack", FrameStack(1))
    own = {"rewards": RewardTransform(count), "state_size": 0}
    buffer = RolloutBuffer(spec, discrete(3), num_envs=count, capacity=steps, **own | changed)
    return GroupBuffer(buffer, stack, np.random.default_rng(0))


def play(memory: GroupBuffer, environments: Scripted, steps: int, version: int = 0) -> list[Completed]:
    """Steps of environments that have been reset; as an actor tells of them."""
    count = environments.count
    none = np.zeros(count, np.bool_)
    memory.begin(StepBatch(environments.reset().copy(), np.zeros(count, np.float32), none, none))
    completed, valid = [], ~none
    for t in range(steps):
        actions = np.full(count, t % 3)
        memory.acted(actions, np.full(count, -t, np.float32), version + t, memory.buffer.state)
        observations, rewards, terminated, truncated, _ = environments.step(actions)
        done = memory.stepped(StepBatch(observations.copy(), rewards, terminated, valid))
        valid = ~(terminated | truncated)
        completed += [] if done is None else [done]
    return completed


def column(values: np.ndarray, copy: int = 0) -> list[Any]:
    found: list[Any] = values[:, copy].tolist()
    return found


def test_a_rollout_holds_every_step_of_every_copy_and_masks_the_dummies() -> None:
    (completed,) = play(memory_of(steps=6), Scripted((3, 5), rewards=(1.0, 2.0, 4.0, 8.0, 16.0), cut=(1,)), 6)
    data = completed.rollout
    assert column(data.observations) == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2]]
    assert column(data.actions) == [0, 1, 2, 0, 1, 2]
    assert column(data.behaviour_log_probs) == [0, -1, -2, -3, -4, -5]
    assert column(data.rewards) == [1.0, 2.0, 4.0, 0.0, 1.0, 2.0]
    assert column(data.valid) == [True, True, True, False, True, True]
    assert column(data.terminated) == [False, False, True, False, False, False]
    assert column(data.valid, 1) == [True] * 5 + [False]
    assert column(data.terminated, 1) == [False] * 6, "a time limit is no termination"


def test_rollouts_follow_each_other_and_are_not_written_again() -> None:
    first, second = play(memory_of(steps=3), Scripted((100, 100)), 6, version=10)
    assert column(first.rollout.observations) == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert column(second.rollout.observations) == [[0, 3], [0, 4], [0, 5], [0, 6]]
    assert (first.version, second.version) == (11, 14), "the mean of those that acted"


def test_a_group_that_begins_anew_drops_half_a_rollout() -> None:
    memory = memory_of(steps=3)
    assert play(memory, Scripted((100, 100)), 2, version=500) == []
    (completed,) = play(memory, Scripted((3, 3)), 3)
    assert column(completed.rollout.observations) == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert completed.version == 1


@pytest.mark.parametrize(("scale", "clip", "rewards"), [(0.5, 0.0, [0.5, 2.0]), (1.0, 1.5, [1.0, 1.5])])
def test_rewards_are_scaled_and_clipped_for_learning(scale: float, clip: float, rewards: list[float]) -> None:
    memory = memory_of(steps=2, rewards=RewardTransform(2, scale=scale, clip=clip))
    (completed,) = play(memory, Scripted((9, 9), rewards=(1.0, 4.0)), 2)
    assert column(completed.rollout.rewards) == rewards


def test_the_stack_is_that_of_the_environments() -> None:
    stacked = StackedEnvironments(Scripted((3, 5)), 3)
    memory = memory_of(steps=12, spec=ObservationSpec((6,), "box", 6), stack=FrameStack(3))
    (completed,) = play(memory, Scripted((3, 5)), 12)
    expected = [stacked.reset().copy()]
    expected += [stacked.step(np.zeros(2, np.int64)).observations.copy() for _ in range(12)]
    assert completed.rollout.observations.tolist() == np.array(expected).tolist()


def test_the_state_begins_with_each_episode_and_each_rollout_holds_its_first() -> None:
    memory = memory_of(count=2, steps=2, state_size=1)
    none, rewards = np.zeros(2, np.bool_), np.zeros(2, np.float32)
    first = StepBatch(np.zeros((2, 2), np.float32), rewards, none, none)
    memory.begin(first)
    firsts: list[list[float]] = []
    for t, valid in enumerate(([True, True], [True, True], [True, False], [True, True], [True, True], [True, True])):
        # What the network makes of the state: one more each step.
        memory.acted(np.zeros(2, np.int64), rewards, 0, memory.buffer.state + 1)
        done = memory.stepped(StepBatch(first.observations, rewards, none, np.array(valid)))
        if done is not None:
            assert done.rollout.state is not None
            firsts.append(done.rollout.state[:, 0].tolist())
        assert memory.buffer.state[:, 0].tolist() == [t + 1, t + 1 if t < 2 else t - 2]
    assert firsts == [[0, 0], [2, 2], [4, 1]]
    memory.begin(first)
    assert memory.buffer.state.tolist() == [[0.0], [0.0]]


def test_pictures_stay_bytes() -> None:
    memory = memory_of(count=1, steps=1, spec=ObservationSpec((2, 3, 3), "pixels", 18), stack=FrameStack(2))
    none = np.zeros(1, np.bool_)
    picture = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    memory.begin(StepBatch(picture, np.zeros(1, np.float32), none, none))
    memory.acted(np.zeros(1, np.int64), np.zeros(1, np.float32), 0, memory.buffer.state)
    done = memory.stepped(StepBatch(picture + np.uint8(100), np.zeros(1, np.float32), none, ~none))
    assert done is not None
    assert done.rollout.observations.dtype == np.uint8
    assert done.rollout.observations[1, 0, :, 0, 0].tolist() == [0, 100]
    assert memory.buffer.observations.shape == (1, 2, 3, 3)
