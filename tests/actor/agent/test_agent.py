from __future__ import annotations

import numpy as np
import pytest

from actor.agent.agent import Agent
from common.errors import EnvironmentMissingError
from common.rl.environments.base import Environments
from common.rl.environments.make import make
from common.settings.sections import Environment
from tests.helpers.run import settings_of


def test_what_is_for_learning_alone_is_no_part_of_it() -> None:
    """Neither the pace of the actors nor their rewards."""
    paced = settings_of("environment.step_seconds=0.5", "environment.reward_clip=0.001", "environment.reward_scale=9")
    agent = Agent(paced, num_envs=2, seed=0, sampled=False)
    assert agent.environments.pace == 0.0
    step = agent.environments.step(agent.act(agent.environments.reset()))
    assert step.rewards.tolist() == [1.0, 1.0]
    agent.close()


def test_its_environments_may_be_made_by_somebody_else() -> None:
    made: list[int] = []

    def own(section: Environment, *, num_envs: int, seed: int) -> Environments:
        made.append(seed)
        return make(section, num_envs=num_envs, seed=seed)

    agent = Agent(settings_of(), num_envs=2, seed=2**100, sampled=True, make=own)
    assert made == [2**100]
    assert agent.act(agent.environments.reset()).shape == (2,)
    agent.close()


@pytest.mark.parametrize(
    ("settings", "told", "drawn"), [("false", None, False), ("true", None, True), ("true", False, False)]
)
def test_actions_are_drawn_as_the_settings_say_unless_it_is_told(settings: str, told: bool | None, drawn: bool) -> None:
    agent = Agent(settings_of(f"evaluation.sampled={settings}"), num_envs=1, seed=0, sampled=told)
    assert agent.sampled is drawn
    agent.close()


def test_of_what_it_remembers_each_episode_has_its_own() -> None:
    agent = Agent(settings_of("network.lstm=4", "network.hidden=[8]"), num_envs=2, seed=0, sampled=False)
    observations = agent.environments.reset()
    agent.act(observations)
    before = agent._state.copy()
    agent.keep(np.array([True, False]))
    assert (agent._state[0] == before[0]).all()
    assert not agent._state[1].any()
    agent.begin()
    assert not agent._state.any()
    agent.close()


def test_without_the_environment_there_is_no_agent() -> None:
    with pytest.raises(EnvironmentMissingError):
        Agent(settings_of("environment.id='Nothing-v0'"), num_envs=1, seed=0, sampled=False)
