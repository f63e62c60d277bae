from __future__ import annotations

import numpy as np

from common.rl.environments.base import Step
from common.rl.environments.make import make
from common.rl.environments.pace import PacedEnvironments
from common.settings.sections import Environment


class Clock:
    """Time that passes only when someone sleeps, works, or oversleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.oversleep = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds + self.oversleep


def paced(clock: Clock, seconds: float = 1.0) -> PacedEnvironments:
    batch = make(Environment(id="CartPole-v1"), num_envs=2, seed=0)
    environments = PacedEnvironments(batch, seconds, clock=clock.read, sleep=clock.sleep)
    environments.reset()
    return environments


def step(environments: PacedEnvironments) -> Step:
    return environments.step(np.zeros(2, np.int64))


def test_a_step_lasts_as_long_as_told() -> None:
    clock = Clock()
    environments = paced(clock)
    for expected in (101.0, 102.0, 103.0):
        clock.now += 0.4  # the agent thinks
        step(environments)
        assert clock.now == expected


def test_oversleeping_is_made_up_for() -> None:
    clock = Clock()
    environments = paced(clock)
    clock.oversleep = 0.25
    for expected in (101.25, 102.25, 103.25):
        step(environments)
        assert clock.now == expected


def test_being_late_is_not_made_up_for() -> None:
    clock = Clock()
    environments = paced(clock)
    clock.now += 50.0
    step(environments)
    assert clock.now == 150.0
    step(environments)
    assert clock.now == 151.0


def test_the_pace_starts_at_reset() -> None:
    clock = Clock()
    environments = paced(clock)
    clock.now += 7.5
    environments.reset()
    step(environments)
    assert clock.now == 108.5


def test_all_else_is_that_of_the_batch() -> None:
    environments = make(
        Environment(id="CartPole-v1", frame_skip=3, step_seconds=1e-6), num_envs=2, seed=0, render_mode="rgb_array"
    )
    assert isinstance(environments, PacedEnvironments)
    assert (environments.count, environments.action.width, environments.frames_per_step) == (2, 2, 3)
    environments.reset()
    assert environments.render().shape == (400, 600, 3)
    environments.close()
