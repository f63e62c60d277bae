from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import VectorEnv

from common.errors import UnavailableError
from common.rl.environments.vector import VectorEnvironments


class Offset(VectorEnv[Any, Any, Any]):
    """Pictures with channels last, integer rewards, actions from 3; raises when told to."""

    def __init__(self) -> None:
        self.num_envs = 2
        self.single_observation_space = Box(0, 255, (5, 4, 1), np.uint8)
        self.single_action_space = Discrete(2, start=3)
        self.fail = False
        self.closed = False

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self.fail:
            raise RuntimeError("gone")
        return np.full((2, 5, 4, 1), 7, np.uint8), {}

    def step(self, actions: Any) -> Any:
        if self.fail:
            raise RuntimeError("gone")
        nothing = np.zeros(2, np.bool_)
        return np.full((2, 5, 4, 1), actions[1], np.uint8), actions.astype(np.int32), nothing, nothing, {}

    def close(self, **_: Any) -> None:
        self.closed = True
        if self.fail:
            raise RuntimeError("gone")


def test_actions_observations_and_rewards_take_our_form() -> None:
    environments = VectorEnvironments(Offset(), name="Offset", seed=0)
    assert environments.action.width == 2
    assert environments.reset().shape == (2, 1, 5, 4)
    step = environments.step(np.array([0, 1]))
    assert (step.observations == 4).all()
    assert step.rewards.tolist() == [3, 4]
    assert step.rewards.dtype == np.float32


def test_lives_are_counted_from_those_after_a_reset() -> None:
    class Lives(Offset):
        def reset(self, **given: Any) -> Any:
            return super().reset(**given)[0], {"lives": np.array([3, 5])}

        def step(self, actions: Any) -> Any:
            return (*super().step(actions)[:4], {"lives": actions})  # 3 and 4

    environments = VectorEnvironments(Lives(), name="Lives", seed=0, lives=True)
    for _ in range(2):
        environments.reset()
        lost = environments.step(np.array([0, 1])).life_lost
        assert lost is not None and lost.tolist() == [False, True]


def test_errors_name_the_environment() -> None:
    vector = Offset()
    vector.fail = True
    environments = VectorEnvironments(vector, name="Offset", seed=0)
    with pytest.raises(UnavailableError, match="Offset failed in reset: RuntimeError: gone"):
        environments.reset()
    with pytest.raises(UnavailableError, match="Offset failed in step: RuntimeError: gone"):
        environments.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("given", [np.zeros((2, 1, 1, 1), np.uint8), np.zeros((2, 5, 4, 1))])
def test_observations_that_are_none_of_the_space_are_refused(given: Any) -> None:
    class Wrong(Offset):
        def reset(self, **_: Any) -> Any:
            return (given, {}) if self.fail else (np.zeros((2, 5, 4, 1), np.uint8), {})

        def step(self, actions: Any) -> Any:
            return (given, *super().step(actions)[1:])

    vector = Wrong()
    environments = VectorEnvironments(vector, name="Wrong", seed=0)
    environments.reset()
    with pytest.raises(UnavailableError, match=r"environment Wrong gave .* none of Box\(0, 255, \(5, 4, 1\), uint8\)"):
        environments.step(np.zeros(2, np.int64))
    vector.fail = True
    with pytest.raises(UnavailableError, match="environment Wrong gave an observation of shape"):
        environments.reset()


def test_observations_that_do_not_fit_the_batch_are_a_failure_of_the_environment() -> None:
    class Turned(Offset):
        def step(self, actions: Any) -> Any:
            return (np.zeros((2, 4, 5, 1), np.uint8), *super().step(actions)[1:])

    environments = VectorEnvironments(Turned(), name="Turned", seed=0)
    environments.reset()
    with pytest.raises(UnavailableError, match="environment Turned failed in step: ValueError"):
        environments.step(np.zeros(2, np.int64))


def test_closes_what_it_was_given() -> None:
    vector = Offset()
    VectorEnvironments(vector, name="Offset", seed=0).close()
    assert vector.closed


def test_one_that_cannot_be_closed_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    vector = Offset()
    vector.fail = True
    VectorEnvironments(vector, name="Offset", seed=0).close()
    assert "environment Offset failed in close: RuntimeError: gone" in caplog.text


def test_renders_the_newest_picture_of_the_first_copy() -> None:
    environments = VectorEnvironments(Offset(), name="Offset", seed=0)
    environments.reset()
    assert environments.render().tolist() == np.full((5, 4, 3), 7).tolist()


def test_states_are_not_rendered() -> None:
    environments = VectorEnvironments(CartPoleVectorEnv(2), name="CartPole-v1", seed=0)
    with pytest.raises(UnavailableError, match="CartPole-v1 draws no pictures"):
        environments.render()


def test_cartpole_episodes_are_as_long_as_those_of_the_single_environment() -> None:
    """The library's own vector must reset, count and cut as its single environment does."""
    limit, copies = 30, 8
    environments = VectorEnvironments(CartPoleVectorEnv(copies, max_episode_steps=limit), name="CartPole-v1", seed=1)
    alone: Any = gymnasium.make("CartPole-v1").unwrapped
    choices = np.random.default_rng(0).integers(2, size=(200, copies))
    states = environments.reset().astype(np.float64)
    elapsed = np.zeros(copies, np.int64)
    over = np.zeros(copies, np.bool_)
    ends = cuts = 0
    for row in choices:
        observations, rewards, terminated, truncated, _ = environments.step(row)
        for copy in range(copies):
            if over[copy]:
                assert np.abs(observations[copy]).max() <= 0.05
                elapsed[copy] = 0
                assert rewards[copy] == 0
            else:
                alone.state, alone.steps_beyond_terminated = states[copy], None
                observation, reward, ended, _, _ = alone.step(row[copy])
                elapsed[copy] += 1
                np.testing.assert_allclose(observations[copy], observation, atol=1e-5)
                assert (rewards[copy], terminated[copy]) == (reward, ended)
                assert truncated[copy] == (elapsed[copy] == limit)
        over = terminated | truncated
        ends, cuts = ends + np.count_nonzero(terminated), cuts + np.count_nonzero(truncated)
        states = observations.astype(np.float64)
    assert ends > 10
    assert cuts > 3


def test_actions_that_were_drawn_from_the_space_are_not_checked_again() -> None:
    vector: Any = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    before = vector.action_space
    environments = VectorEnvironments(vector, name="CartPole-v1", seed=0)
    assert isinstance(before, MultiDiscrete) and vector.action_space == before
    assert vector.action_space.contains("nothing")
    environments.reset()
    assert environments.step(np.array([0, 1, 0])).observations.shape == (3, 4)
    environments.close()
