from __future__ import annotations

from typing import Any

import gymnasium

from common.rl.environments.repeat import RepeatAction


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
