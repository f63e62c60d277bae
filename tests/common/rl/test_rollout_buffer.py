"""The arrays of a rollout; whole rollouts of environments: tests/actor/test_collector.py, and the learner's."""

from __future__ import annotations

import numpy as np
import pytest

from common.rl.action_spec import discrete
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import NonFiniteError, RewardTransform
from common.rl.rollout_buffer import RolloutBuffer, masked_state

ENVS = 2


def buffer_of(capacity: int = 3, state_size: int = 0) -> RolloutBuffer:
    buffer = RolloutBuffer(
        ObservationSpec((1,), "box", 1),
        discrete(3),
        num_envs=ENVS,
        capacity=capacity,
        state_size=state_size,
        rewards=RewardTransform(ENVS),
    )
    buffer.begin()
    buffer.rows[0] = 0
    return buffer


def play(buffer: RolloutBuffer, steps: int, reward: float = 1.0) -> None:
    for _ in range(steps):
        t = buffer.t
        seen = buffer.observations
        buffer.acted(np.full(ENVS, t % 3), np.full(ENVS, -t, np.float32))
        buffer.rows[t + 1] = seen + 1
        buffer.stepped(np.full(ENVS, reward, np.float32), np.zeros(ENVS, np.bool_), np.ones(ENVS, np.bool_))


def test_a_rollout_ends_where_it_is_finished() -> None:
    buffer = buffer_of(5)
    play(buffer, 4)
    assert not buffer.full
    rollout, _ = buffer.finish()
    assert rollout.observations[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert rollout.actions[:, 1].tolist() == [0, 1, 2, 0]
    assert rollout.behaviour_log_probs[:, 1].tolist() == [0, -1, -2, -3]
    assert rollout.state is None


@pytest.mark.parametrize("reuse", [True, False])
def test_the_next_one_begins_with_the_last_observation(reuse: bool) -> None:
    buffer = buffer_of(3)
    play(buffer, 3)
    first, _ = buffer.finish()
    assert buffer.finished
    buffer.carry_on(reuse=reuse)
    play(buffer, 3)
    second, _ = buffer.finish()
    assert second.observations[:, 0, 0].tolist() == [3, 4, 5, 6]
    assert (first.observations[:, 0, 0].tolist() == [0, 1, 2, 3]) != reuse
    assert np.shares_memory(first.observations, second.observations) == reuse


def test_it_grows_and_keeps_what_it_holds() -> None:
    buffer = buffer_of(2)
    play(buffer, 2)
    buffer.grow()
    assert not buffer.full
    play(buffer, 2)
    assert buffer.full
    rollout, _ = buffer.finish()
    assert rollout.observations[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert rollout.actions[:, 0].tolist() == [0, 1, 2, 0]


def test_a_reward_that_is_no_number_loses_the_rollout_only() -> None:
    buffer = buffer_of(2)
    play(buffer, 2, reward=float("nan"))
    with pytest.raises(NonFiniteError):
        buffer.finish()
    buffer.carry_on(reuse=False)
    play(buffer, 2)
    rollout, _ = buffer.finish()
    assert rollout.observations[:, 0, 0].tolist() == [2, 3, 4]


def test_a_rollout_has_the_state_before_its_first_step() -> None:
    buffer = buffer_of(1, state_size=1)
    states = []
    for number in (1.0, 2.0):
        buffer.state = np.full((ENVS, 1), number, np.float32)
        play(buffer, 1)
        rollout, _ = buffer.finish()
        assert rollout.state is not None
        states.append(rollout.state[:, 0].tolist())
        buffer.carry_on(reuse=True)
    assert states == [[0, 0], [1, 1]]
    buffer.begin()
    assert not buffer.state.any()


def test_the_states_of_episodes_that_are_over_are_forgotten() -> None:
    state = np.array([[1.0, 1.0], [np.nan, 2.0], [3.0, 3.0]], np.float32)
    masked = masked_state(state, np.array([True, False, True]))
    assert masked.dtype == np.float32
    assert masked.tolist() == [[1, 1], [0, 0], [3, 3]]
    assert state[1, 1] == 2.0, "the state given is left alone"
    assert masked_state(np.zeros((3, 0), np.float32), np.zeros(3, np.bool_)).shape == (3, 0)
