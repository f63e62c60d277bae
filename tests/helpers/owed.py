"""A task of seconds that is learnt only by a method that gets its returns right.

A step shows one of two signs; naming it earns 1, which is paid a step later. To leave ends the episode and pays LEAVING
at once; else it is cut off after LIMIT steps. With a discount of 0.9 to stay is worth 9, to leave LEAVING, so leaving
is best for a method that

- looks at the reward of a step alone, or does not go on with values where a rollout ends;
- takes the cut for an end, after which there is nothing;
- goes on with values after an end.

One that mixes up observations or actions names the signs by chance, and earns half.
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
    """The observation: which sign is shown, as two numbers, and what is owed."""

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
