"""A task that takes seconds, and that only a method with correct returns learns.

A step shows one of two signs; naming it earns 1, which is paid one step later. Leaving ends the episode and pays
LEAVING at once; otherwise the episode is truncated after LIMIT steps. With a discount of 0.9 staying is worth 9 and
leaving LEAVING, so that leaving looks best only to a wrong method, which

- uses a step's reward alone, or does not bootstrap from the value where a rollout ends;
- takes truncation for termination, after which nothing is earned;
- bootstraps from the value after termination.

A method that mixes up observations or actions names the signs by chance, and earns half.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

LEAVING = 2.0
LIMIT = 4


class Owed(gymnasium.Env[NDArray[np.float32], np.int64]):
    """The task as an environment; it shows the sign (one-hot, two numbers) and the reward that is owed."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._owed = 0.0
        return self._next(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        leaves = action == 2
        reward = self._owed + LEAVING * leaves
        self._owed = float(action == self._sign)
        return self._next(), reward, bool(leaves), False, {}

    def _next(self) -> NDArray[np.float32]:
        self._sign = int(self.np_random.integers(2))
        return np.array([1 - self._sign, self._sign, self._owed], np.float32)


ID = "tests.helpers.owed:Owed-v0"
gymnasium.register("Owed-v0", Owed, max_episode_steps=LIMIT)
