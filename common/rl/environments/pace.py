"""Steps at a fixed pace, as of an environment in real time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from common.rl.environments.base import Actions, Environments, Observations, Step


class PacedEnvironments(Environments):
    """Steps of the batch end at least `seconds` apart, the time between them included.

    A sleep that lasted too long makes the next one shorter, so that the pace holds on average. After a step that was
    late itself the pace starts anew from its end.
    """

    def __init__(
        self,
        environments: Environments,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """environments: closed with this one. clock, sleep: in seconds."""
        self.count = environments.count
        self.observation_space = environments.observation_space
        self.action = environments.action
        self.frames_per_step = environments.frames_per_step
        self._environments = environments
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def reset(self, seed: int | None = None) -> Observations:
        """The pace starts from its end."""
        observations = self._environments.reset(seed)
        self._due = self._clock()
        return observations

    def step(self, actions: Actions) -> Step:
        step = self._environments.step(actions)
        self._due += self._seconds
        now = self._clock()
        if now < self._due:
            self._sleep(self._due - now)
        else:
            self._due = now
        return step

    def render(self) -> NDArray[np.uint8]:
        return self._environments.render()

    def close(self) -> None:
        self._environments.close()
