"""Several observations in a row as one."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.environments.base import Actions, Environments, Observations, Step


class StackedEnvironments(Environments):
    """The last `stack` observations, joined along their first axis, oldest first.

    A new episode starts with its first observation repeated. (n,) becomes (stack * n,), (C, H, W) becomes
    (stack * C, H, W), a scalar becomes (stack,).
    """

    def __init__(self, environments: Environments, stack: int) -> None:
        """environments: closed with this one. Raises: ConfigurationError if the observations are discrete."""
        single = environments.observation_space
        if not isinstance(single, Box):
            raise ConfigurationError(f"environment.frame_stack: {single} cannot be stacked; use 1")
        low, high = np.atleast_1d(single.low), np.atleast_1d(single.high)
        assert single.dtype is not None
        self.observation_space = Box(
            np.concatenate([low] * stack), np.concatenate([high] * stack), dtype=single.dtype.type
        )
        self.count = environments.count
        self.action = environments.action
        self.frames_per_step = environments.frames_per_step
        self._environments = environments
        self._observations = np.zeros((self.count, *self.observation_space.shape), single.dtype)
        self._parts = self._observations.reshape(self.count, stack, *single.shape)
        self._fresh = np.ones(self.count, np.bool_)
        """Copies whose next observation is the first of an episode."""

    def reset(self, seed: int | None = None) -> Observations:
        """As Environments.reset."""
        self._parts[:] = self._environments.reset(seed)[:, None]
        self._fresh[:] = False
        return self._observations

    def step(self, actions: Actions) -> Step:
        """As Environments.step."""
        step = self._environments.step(actions)
        self._parts[:, :-1] = self._parts[:, 1:]
        self._parts[:, -1] = step.observations
        if self._fresh.any():
            self._parts[self._fresh] = step.observations[self._fresh, None]
        np.logical_or(step.terminated, step.truncated, out=self._fresh)
        return step._replace(observations=self._observations)

    def render(self) -> NDArray[np.uint8]:
        """As Environments.render."""
        return self._environments.render()

    def close(self) -> None:
        """As Environments.close."""
        self._environments.close()
