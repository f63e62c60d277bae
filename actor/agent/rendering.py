"""The pictures of an agent at play, one a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from actor.agent.trained_agent import TrainedAgent
from common.rl.environments.names import find_spec, resolve
from common.settings.sections import Environment

USUAL_RATE = 30.0


@dataclass(frozen=True)
class Picture:
    """What is to be seen after a step, or at the start of an episode."""

    pixels: NDArray[np.uint8]
    """(height, width, 3), RGB."""
    episode_return: float
    """So far."""
    length: int
    """Steps so far."""
    last: bool
    """Whether the episode ended here, or was cut off."""


def pictures(agent: TrainedAgent, *, max_steps: int, seed: int) -> Iterator[Picture]:
    """One episode; `agent` must have a single environment made with render_mode='rgb_array'."""
    environments = agent.environments
    observations = environments.reset(seed)
    agent.begin()
    total, length, over = 0.0, 0, False
    yield Picture(environments.render(), total, length, over)
    while not over:
        observations, rewards, terminated, truncated, _ = environments.step(agent.act(observations))
        total, length = total + float(rewards[0]), length + 1
        over = bool(terminated[0] or truncated[0]) or length >= max_steps
        yield Picture(environments.render(), total, length, over)


def natural_rate(section: Environment) -> float:
    """Steps of the agent per second at which the environment is meant to be watched."""
    entry = find_spec(section.id).entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    frames = getattr(creator, "metadata", {}).get("render_fps", USUAL_RATE)
    return float(frames) / resolve(section).frame_skip
