"""A task in which most actions are forbidden: taking one raises, and is noted in FORBIDDEN.

A step shows one of ROOMS doors; going through it earns 1. Of ACTIONS actions, only this one and another, drawn anew
each time, are allowed, so that chance earns half. An episode ends after STEPS steps with a mask that allows nothing, as
in board games.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ROOMS, ACTIONS, STEPS = 3, 7, 8
FORBIDDEN: list[Any] = []
"""Forbidden actions that were taken in this process."""


class Guarded(gymnasium.Env[Any, Any]):
    """The task as an environment; its actions are numbered from 2."""

    def __init__(self, *, numbers: bool = False, pairs: bool = False) -> None:
        """numbers: the observation is an array (1, ROOMS). pairs: an action is two choices, of which the second is the
        door."""
        self._numbers, self._pairs = numbers, pairs
        self.observation_space = spaces.Box(0.0, 1.0, (1, ROOMS)) if numbers else spaces.Discrete(ROOMS, start=5)
        self.action_space = spaces.MultiDiscrete([2, ACTIONS]) if pairs else spaces.Discrete(ACTIONS, start=2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._left = STEPS
        return self._next()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        taken = action[1] if self._pairs else action - 2
        if not self._doors[taken] or (self._pairs and not self._first[action[0]]):
            FORBIDDEN.append(action)
            raise RuntimeError(f"{action} is forbidden")
        reward = float(taken == self._room)
        self._left -= 1
        observation, info = self._next()
        return observation, reward, not self._left, False, info

    def _next(self) -> tuple[Any, dict[str, Any]]:
        self._room = int(self.np_random.integers(ROOMS))
        self._doors = np.zeros(ACTIONS, np.int8)
        if self._left:
            self._doors[[self._room, self.np_random.integers(ROOMS, ACTIONS)]] = 1
        self._first = np.eye(2, dtype=np.int8)[self.np_random.integers(2)]
        shown: Any = np.eye(ROOMS, dtype=np.float32)[[self._room]] if self._numbers else np.int64(self._room + 5)
        return shown, {"action_mask": (self._first, self._doors) if self._pairs else self._doors}


class Blind(gymnasium.Env[Any, Any]):
    """An environment whose info after a step has `mask` in place of a mask, or none."""

    observation_space = spaces.Box(0.0, 1.0, (2,))
    action_space = spaces.Discrete(3)

    def __init__(self, *, mask: Any = None) -> None:
        self._mask = mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(2, np.float32), {"action_mask": [1, 1, 1]}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 0.0, False, False, {} if self._mask is None else {"action_mask": self._mask}


ID = "tests.helpers.guarded:Guarded"
