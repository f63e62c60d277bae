from __future__ import annotations

import numpy as np
import pytest

from common.settings.sections import Environment
from simulation.settings import Costs
from simulation.virtual_environments import VirtualClock, VirtualEnvironments, VirtualMaker

COSTS = Costs(batch_step=0.5, environment_step=0.25)


def made(clock: VirtualClock, *, speed: float = 1.0, pace: float = 0.0) -> VirtualEnvironments:
    section = Environment(id="CartPole-v1", step_seconds=pace)
    return VirtualMaker(clock, COSTS, speed)(section, num_envs=2, seed=0)


def steps(environments: VirtualEnvironments, count: int) -> None:
    for _ in range(count):
        environments.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 1.0), (2.0, 0.5)])
def test_a_step_takes_virtual_time(speed: float, seconds: float) -> None:
    clock = VirtualClock(7.0)
    environments = made(clock, speed=speed)
    environments.reset()
    steps(environments, 3)
    assert clock.monotonic() == clock.perf_counter() == 7.0 + 3 * seconds
    assert environments.steps == 6
    environments.close()


def test_a_pace_holds_back_a_fast_batch_and_starts_anew_after_a_slow_time() -> None:
    clock = VirtualClock()
    environments = made(clock, pace=3.0)
    environments.reset()
    steps(environments, 2)
    assert clock.now == 6.0
    clock.now += 2.5  # a gradient
    steps(environments, 1)
    assert clock.now == 9.5, "late by itself"
    steps(environments, 1)
    assert (clock.now, environments.pace) == (12.5, 3.0)
    environments.close()


def test_the_maker_counts_the_steps_in_all_batches() -> None:
    maker = VirtualMaker(VirtualClock(), COSTS, 1.0)
    for seed in range(2):
        batch = maker(Environment(id="CartPole-v1"), num_envs=2, seed=seed)
        batch.reset()
        steps(batch, 2)
        batch.close()
    assert maker.steps == 8
