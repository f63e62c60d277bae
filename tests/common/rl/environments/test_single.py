from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from common.rl.environments.interface import interface
from common.rl.environments.single import SingleEnvironment
from common.settings.sections import Environment


def single(seed: int = 0, render_mode: Any = None, **section: Any) -> SingleEnvironment:
    settings = Environment(**section)
    return SingleEnvironment(settings, interface(settings), seed=seed, render_mode=render_mode)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "section",
    [
        {"id": "CartPole-v1", "frame_stack": 2},
        {"id": "Pendulum-v1", "action_bounds": "tanh"},
        {"id": "FrozenLake-v1"},
        {"id": "Blackjack-v1"},
        {"id": "CartPole-v1", "observation": "frames"},
        {"id": "ALE/Pong-v5"},
    ],
    ids=lambda section: section["id"],
)
def test_it_is_an_environment_as_gymnasium_has_them(section: dict[str, Any]) -> None:
    environment = single(**section)
    check_env(environment, skip_render_check=True)
    environment.close()


def test_steps_are_those_of_the_environment_itself() -> None:
    genuine = gymnasium.make("Pendulum-v1")
    mine = single(id="Pendulum-v1")
    observation, _ = mine.reset(seed=3)
    genuine.reset()
    theta = np.arctan2(observation[1], observation[0])
    genuine.unwrapped.state = np.array([theta, observation[2]])  # type: ignore[attr-defined]
    for action in ([2.0], [-1.5], [0.3]):
        own, reward, *_ = mine.step(np.array(action, np.float32))
        expected, its, *_ = genuine.step(np.array(action, np.float32))
        np.testing.assert_allclose(own, expected, atol=1e-5)
        assert reward == pytest.approx(float(its), abs=1e-4)
    mine.close()
    genuine.close()


def test_an_episode_ends_and_another_begins() -> None:
    environment = single(id="CartPole-v1", max_episode_steps=2)
    with pytest.raises(ResetNeeded, match="call reset"):
        environment.step(0)
    first, _ = environment.reset(seed=1)
    second, _ = environment.reset()
    assert not np.array_equal(first, second)
    assert environment.step(0)[3] is False
    assert environment.step(0)[3] is True
    with pytest.raises(ResetNeeded):
        environment.step(0)
    np.testing.assert_array_equal(environment.reset(seed=1)[0], first)
    environment.close()


def test_it_draws_where_it_is_asked_to() -> None:
    environment = single(id="CartPole-v1", render_mode="rgb_array")
    environment.reset()
    assert environment.render().shape[2] == 3
    environment.close()
