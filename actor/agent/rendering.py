"""The pictures of a trained agent's episode, one for each step."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from actor.agent.trained_agent import TrainedAgent
from common.errors import A3cdError, EnvironmentMissingError
from common.rl.environments.base import failure
from common.rl.environments.names import find_spec, own_cure, resolve
from common.settings.sections import Environment

USUAL_RATE = 30.0
"""Frames per second for an environment whose metadata name no rate."""


@dataclass(frozen=True)
class Picture:
    """A picture of an episode's start, or of the state after a step."""

    pixels: NDArray[np.uint8]
    """(height, width, 3), RGB."""
    episode_return: float
    """Return so far."""
    length: int
    """Steps so far."""


def pictures(agent: TrainedAgent, *, max_steps: int, seed: int) -> Iterator[Picture]:
    """Play one episode of at most `max_steps` steps; `agent` has one environment, made with render_mode="rgb_array".

    Raises UnavailableError if the environment fails or draws nothing, EnvironmentMissingError if it lacks a package to
    draw with.
    """
    environments = agent.environments
    observations = environments.reset(seed)
    agent.begin()
    episode_return = 0.0
    length = 0
    ended = False
    yield Picture(_draw(agent), episode_return, length)
    while not ended and length < max_steps:
        observations, rewards, terminated, truncated, _ = environments.step(agent.act(observations))
        episode_return += float(rewards[0])
        length += 1
        ended = bool(terminated[0] or truncated[0])
        yield Picture(_draw(agent), episode_return, length)


def _draw(agent: TrainedAgent) -> NDArray[np.uint8]:
    try:
        return agent.environments.render()
    except A3cdError:
        raise
    except DependencyNotInstalled as error:
        text = f"environment {agent.settings.environment.id} cannot draw: {own_cure(str(error))}"
        raise EnvironmentMissingError(text) from error
    except Exception as error:
        raise failure(agent.settings.environment.id, "render", error) from error


def natural_rate(section: Environment) -> float:
    """Return the rate, in steps of the agent per second, at which the environment is meant to be watched."""
    entry = find_spec(section.id).entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    # Some environments have no metadata, or a rate of None or 0, where they mean none.
    frames = (getattr(creator, "metadata", None) or {}).get("render_fps") or USUAL_RATE
    return float(frames) / resolve(section).frame_skip
