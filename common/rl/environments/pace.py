"""Slower than the machine could: steps at a fixed pace, as a real or a human-watched environment has."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from common.rl.environments.base import Actions, Environments, Observations, Step


class PacedEnvironments(Environments):
    """Steps of the batch end at least `seconds` apart; what the agent does in between counts.

    A sleep that lasted too long is made up for in the next step, so that the pace holds on average; a step that
    itself came late is not: the pace starts anew from its end.
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
        """As Environments.reset; the pace starts from its end."""
        observations = self._environments.reset(seed)
        self._due = self._clock()
        return observations

    def step(self, actions: Actions) -> Step:
        """As Environments.step, not before it is due."""
        step = self._environments.step(actions)
        self._due += self._seconds
        now = self._clock()
        if now < self._due:
            self._sleep(self._due - now)
        else:
            self._due = now
        return step

    def render(self) -> NDArray[np.uint8]:
        """As Environments.render."""
        return self._environments.render()

    def close(self) -> None:
        """As Environments.close."""
        self._environments.close()
