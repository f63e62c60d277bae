"""Episodes that can be told apart: `numbered_environments:Numbered-v0` with this folder on sys.path."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

LENGTH = 10
PER_HOST = 1_000_000
"""Of a host's episodes, so that all are whole in 32-bit floats for the first dozen hosts."""
_numbers = itertools.count(1)


def split(episode_return: float) -> tuple[str, int]:
    """The host where the episode with this return was played, and its number there."""
    host, number = divmod(int(episode_return), PER_HOST)
    return f"h{host}", number


class Numbered(gymnasium.Env[Any, Any]):
    """An episode's return is its host's number in millions, and the how-manieth it is of its process."""

    def __init__(self) -> None:
        self.observation_space = Box(-1, 1, (4,), np.float32)
        self.action_space: gymnasium.Space[Any] = Discrete(2)
        self._host = int(platform.node().removeprefix("h")) * PER_HOST
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._elapsed = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._elapsed += 1
        over = self._elapsed == LENGTH
        return self.observation_space.sample(), float(self._host + next(_numbers)) if over else 0.0, over, False, {}


gymnasium.register(id="Numbered-v0", entry_point="numbered_environments:Numbered")
