from __future__ import annotations

import numpy as np
import pytest

from common.errors import ConfigurationError
from common.rl.environments.make import make
from common.rl.environments.stack import StackedEnvironments
from common.settings.sections import Environment

COUNTER = Environment(id="broken_environments:Counter-v0", options={"length": 3})


def test_the_oldest_comes_first_and_an_episode_starts_with_copies_of_its_first() -> None:
    environments = StackedEnvironments(make(COUNTER, num_envs=1, seed=0), 3)
    assert environments.observation_space.shape == (6,)
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
