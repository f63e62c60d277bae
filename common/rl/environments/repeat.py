"""The same action several times in a row (frame skip)."""

from __future__ import annotations

from typing import Any

import gymnasium


class RepeatAction(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Repeats each action `skip` times or until the episode ends: rewards are summed, the last observation is kept."""

    def __init__(self, environment: gymnasium.Env[Any, Any], skip: int) -> None:
        """skip: 1 or more."""
        super().__init__(environment)
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info
