"""Environments whose observations are stacks of several in a row."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.environments.base import Actions, Environments, Observations, Step
from common.rl.frame_stack import FrameStack


class StackedEnvironments(Environments):
    """The last `stack` observations as one; an episode begins with its first observation repeated."""

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
        self._stack = FrameStack(stack)
        self._observations = np.zeros((self.count, *self.observation_space.shape), single.dtype)
        self._fresh = np.ones(self.count, np.bool_)
        """(B,): whether the next observation is the first of an episode."""

    def reset(self, seed: int | None = None) -> Observations:
        self._stack.begin(self._observations, self._environments.reset(seed), np.ones(self.count, np.bool_))
        self._fresh[:] = False
        return self._observations

    def step(self, actions: Actions) -> Step:
        step = self._environments.step(actions)
        self._stack.push(self._observations, self._observations, step.observations)
        self._stack.begin(self._observations, step.observations, self._fresh)
        np.logical_or(step.terminated, step.truncated, out=self._fresh)
        return step._replace(observations=self._observations)

    def render(self) -> NDArray[np.uint8]:
        return self._environments.render()

    def close(self) -> None:
        self._environments.close()
