"""An environment that raises, or gives NaN, now and then ends that one episode, not the work of all copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

LARGEST_REWARD = float(np.finfo(np.float32).max)
"""Rewards are float32 from here on."""
MOST_FAILURES = 3
"""In a row, without a step between them that went well."""

Survived = Callable[[str, Exception], None]
"""Told `reset` or `step` and what was raised there."""


class TolerantEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Where the environment raises, the episode is cut off (truncated) at its last observation; the next goes on.

    A reward that is no finite number counts as raised (ValueError). The `MOST_FAILURES`th failure in a row is raised.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], survived: Survived) -> None:
        """`survived` is told of every failure that is not raised."""
        super().__init__(environment)
        self._survived = survived
        self._failures = 0
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As gymnasium.Env.reset; tried again, without the seed with which it failed."""
        while True:
            try:
                self._last, info = self.env.reset(seed=seed, options=options)
            except Exception as error:
                self._failed("reset", error)
                seed = None
            else:
                return self._last, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As gymnasium.Env.step."""
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            if not abs(float(reward)) <= LARGEST_REWARD:
                raise ValueError(f"the reward {reward} is no finite number")
        except Exception as error:
            self._failed("step", error)
            return self._last, 0.0, False, True, {}
        self._failures = 0
        self._last = observation
        return observation, reward, terminated, truncated, info

    def _failed(self, doing: str, error: Exception) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._failures = 0
            raise error
        self._survived(doing, error)
