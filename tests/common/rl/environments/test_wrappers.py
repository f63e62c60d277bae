"""Repeated actions, stacked observations and a fixed pace."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from common.errors import ConfigurationError
from common.rl.environments import wrappers
from common.rl.environments.base import Step
from common.rl.environments.make import make
from common.rl.environments.wrappers import PacedEnvironments, RepeatAction, StackedEnvironments
from common.settings.sections import Environment

COUNTER = Environment(id="broken_environments:Counter-v0", options={"length": 3})


def test_rewards_are_summed_and_the_last_observation_kept() -> None:
    environment = RepeatAction(gymnasium.make("broken_environments:Counter-v0", length=9), 4)
    environment.reset(seed=0)
    observation, reward, terminated, truncated, _ = environment.step(1)
    assert (observation[1], reward, terminated, truncated) == (4, 8.0, False, False)


def test_it_stops_where_the_episode_ends() -> None:
    made: Any = gymnasium.make("broken_environments:Counter-v0", length=6)
    environment = RepeatAction(made, 4)
    environment.reset(seed=0)
    environment.step(0)
    observation, reward, terminated, _, _ = environment.step(0)
    assert (observation[1], reward, terminated) == (6, 2.0, True)
    assert made.unwrapped.lifetime == 6


def test_it_stops_where_the_episode_is_cut() -> None:
    environment = RepeatAction(gymnasium.make("broken_environments:Counter-v0", max_episode_steps=2), 3)
    environment.reset(seed=0)
    assert environment.step(0)[1:4] == (2.0, False, True)


def test_the_oldest_comes_first_and_an_episode_starts_with_copies_of_its_first() -> None:
    environments = StackedEnvironments(make(COUNTER, num_envs=1, seed=0), 3)
    assert environments.observation.shape == (6,)
    elapsed = [environments.reset()[0, 1::2].tolist()]
    elapsed += [environments.step(np.zeros(1, np.int64)).observations[0, 1::2].tolist() for _ in range(5)]
    assert elapsed == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [0, 0, 0], [0, 0, 1]]


def test_no_number_of_the_former_episode_stays() -> None:
    environments = StackedEnvironments(make(COUNTER, num_envs=1, seed=0), 2)
    environments.reset()
    for _ in range(4):
        drawn = environments.step(np.zeros(1, np.int64)).observations[0, ::2]
    assert drawn[0] == drawn[1]


def test_pictures_are_stacked_by_channel() -> None:
    single = make(Environment(id="broken_environments:Picture-v0"), num_envs=2, seed=0)
    expected = single.reset()
    environments = StackedEnvironments(make(Environment(id="broken_environments:Picture-v0"), num_envs=2, seed=0), 2)
    observations = environments.reset()
    assert observations.shape == (2, 6, 6, 7)
    assert observations.dtype == np.uint8
    np.testing.assert_array_equal(observations[:, :3], expected)
    np.testing.assert_array_equal(observations[:, 3:], expected)


def test_a_reset_right_after_an_end_is_no_dummy() -> None:
    environments = StackedEnvironments(make(COUNTER, num_envs=1, seed=0), 2)
    environments.reset()
    for _ in range(3):
        environments.step(np.zeros(1, np.int64))
    environments.reset()
    assert environments.step(np.zeros(1, np.int64)).observations[0, 1::2].tolist() == [0, 1]


def test_discrete_observations_cannot_be_stacked() -> None:
    with pytest.raises(ConfigurationError, match=r"environment\.frame_stack: Discrete\(16\) cannot be stacked"):
        make(Environment(id="broken_environments:Grid-v0", frame_stack=2), num_envs=1, seed=0)


def test_what_is_below_is_rendered_and_closed() -> None:
    environments = make(Environment(id="CartPole-v1", frame_stack=2), num_envs=1, seed=0, render_mode="rgb_array")
    environments.reset()
    assert environments.render().shape == (400, 600, 3)
    environments.close()


class Clock:
    """Time that passes only when someone sleeps, works, or oversleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.oversleep = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds + self.oversleep


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wrappers, "time", clock)
    return clock


@pytest.fixture
def paced(clock: Clock) -> PacedEnvironments:
    environments = PacedEnvironments(make(Environment(id="CartPole-v1"), num_envs=2, seed=0), 1.0)
    environments.reset()
    return environments


def step(environments: PacedEnvironments) -> Step:
    return environments.step(np.zeros(2, np.int64))


def test_a_step_lasts_as_long_as_told(clock: Clock, paced: PacedEnvironments) -> None:
    for expected in (101.0, 102.0, 103.0):
        clock.now += 0.4  # the agent thinks
        step(paced)
        assert clock.now == expected


def test_oversleeping_is_made_up_for(clock: Clock, paced: PacedEnvironments) -> None:
    clock.oversleep = 0.25
    for expected in (101.25, 102.25, 103.25):
        step(paced)
        assert clock.now == expected


def test_being_late_is_not_made_up_for(clock: Clock, paced: PacedEnvironments) -> None:
    clock.now += 50.0
    step(paced)
    assert clock.now == 150.0
    step(paced)
    assert clock.now == 151.0


def test_the_pace_starts_at_reset(clock: Clock, paced: PacedEnvironments) -> None:
    clock.now += 7.5
    paced.reset()
    step(paced)
    assert clock.now == 108.5


def test_all_else_is_that_of_the_batch() -> None:
    environments = make(
        Environment(id="CartPole-v1", frame_skip=3, step_seconds=1e-6), num_envs=2, seed=0, render_mode="rgb_array"
    )
    assert isinstance(environments, PacedEnvironments)
    assert (environments.count, environments.action.width, environments.frames_per_step) == (2, 2, 3)
    environments.reset()
    assert environments.render().shape == (400, 600, 3)
    environments.close()
