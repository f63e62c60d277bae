"""An environment of pictures without a game, to measure networks with: `benchmarks.pictures:Pictures-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

SIDE, ACTIONS = 84, 6


class Pictures(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """Shows grey noise at each step; rewards are zero."""

    observation_space = Box(0, 255, (1, SIDE, SIDE), np.uint8)
    action_space = Discrete(ACTIONS)

    def reset(self, **keywords: Any) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=keywords.get("seed"))
        return self._picture(), {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        return self._picture(), 0.0, False, False, {}

    def _picture(self) -> NDArray[np.uint8]:
        return self.np_random.integers(256, size=(1, SIDE, SIDE), dtype=np.uint8)


gymnasium.register("Pictures-v0", entry_point=f"{__name__}:Pictures", max_episode_steps=1000)
