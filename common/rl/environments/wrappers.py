"""Wrappers: the same action several times in a row, stacked observations, and steps at a fixed pace."""

import time
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.environments.base import Actions, Environments, Observations, Step
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec


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


class _Wrapped(Environments):
    """A batch around another, which is closed with it."""

    def __init__(self, inner: Environments) -> None:
        self.count = inner.count
        self.observation = inner.observation
        self.action = inner.action
        self.actions = inner.actions
        self.space = inner.space
        self.frames_per_step = inner.frames_per_step
        self._inner = inner

    def render(self) -> NDArray[np.uint8]:
        return self._inner.render()

    @property
    def masks_unused(self) -> bool:  # type: ignore[override]
        return self._inner.masks_unused

    def close(self) -> None:
        self._inner.close()


def stacked(single: ObservationSpec, depth: int) -> ObservationSpec:
    """Return the spec of the last `depth` observations as one; raises ConfigurationError if they are discrete."""
    if single.kind == "discrete":
        raise ConfigurationError(f"environment.frame_stack: Discrete({single.size}) cannot be stacked; use 1")
    first, *rest = single.shape or (1,)
    return replace(single, shape=(depth * first, *rest), size=depth * single.size)


class StackedEnvironments(_Wrapped):
    """The last `depth` observations as one; an episode begins with its first observation repeated."""

    def __init__(self, inner: Environments, depth: int) -> None:
        """Raises ConfigurationError if the observations are discrete."""
        super().__init__(inner)
        self.observation = stacked(inner.observation, depth)
        self._stack = FrameStack(depth)
        self._observations = np.zeros((self.count, *self.observation.shape), self.observation.dtype)
        self._fresh = np.ones(self.count, np.bool_)
        """(B,): whether the next observation is the first of an episode."""

    def reset(self, seed: int | None = None) -> Observations:
        self._stack.begin(self._observations, self._inner.reset(seed), np.ones(self.count, np.bool_))
        self._fresh[:] = False
        return self._observations

    def step(self, actions: Actions) -> Step:
        step = self._inner.step(actions)
        self._stack.push(self._observations, self._observations, step.observations)
        self._stack.begin(self._observations, step.observations, self._fresh)
        np.logical_or(step.terminated, step.truncated, out=self._fresh)
        return step._replace(observations=self._observations)


class PacedEnvironments(_Wrapped):
    """Steps of the batch end at least `seconds` apart, including the time between calls.

    A sleep that lasted too long makes the next one shorter, so that the pace holds on average. After a step that was
    late itself, and after a reset, the pace starts anew from the end of it.
    """

    def __init__(self, inner: Environments, seconds: float) -> None:
        super().__init__(inner)
        self.pace = seconds
        self._due = time.monotonic()

    def reset(self, seed: int | None = None) -> Observations:
        observations = self._inner.reset(seed)
        self._due = time.monotonic()
        return observations

    def step(self, actions: Actions) -> Step:
        step = self._inner.step(actions)
        self._due += self.pace
        now = time.monotonic()
        if now < self._due:
            time.sleep(self._due - now)
        else:
            self._due = now
        return step
