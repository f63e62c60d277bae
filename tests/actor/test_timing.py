"""What is told of the first rollouts, with a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import actor.timing
from actor.timing import ROLLOUTS, Timing
from common.rl.action_spec import discrete
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.wire.bodies.trajectory import TrajectoryFormat

BOX = ObservationSpec((2,), "box", 2)


def rollout_of(reward: float = 1.0) -> Rollout:
    return Rollout(
        observations=torch.zeros(4, 1, 2),
        actions=torch.zeros(3, 1, dtype=torch.int64),
        rewards=torch.full((3, 1), reward),
        terminated=torch.zeros(3, 1, dtype=torch.bool),
        valid=torch.ones(3, 1, dtype=torch.bool),
        behaviour_log_probs=torch.zeros(3, 1),
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Both clocks stand still unless they are set."""
    clock = SimpleNamespace(wall=0.0, cpu=0.0)
    monkeypatch.setattr(actor.timing.time, "perf_counter", lambda: clock.wall)
    monkeypatch.setattr(actor.timing.time, "process_time", lambda: clock.cpu)
    return clock


def plays(timing: Timing, clock: SimpleNamespace, wall: float, cpu: float) -> None:
    with timing.play():
        clock.wall += wall
        clock.cpu += cpu


def test_the_first_rollout_warms_up_and_of_the_others_the_least_counts(clock: SimpleNamespace) -> None:
    packing = TrajectoryFormat(BOX, discrete(2), steps=3, copies=1, stack=1)
    timing, rollout = Timing(packing, "none"), rollout_of()
    plays(timing, clock, 100.0, 100.0)
    timing.packed(40, 9.0)
    timing.rollout(rollout, 100.0)
    for number in range(ROLLOUTS):
        assert timing.trial() is None
        plays(timing, clock, 1.0 + number, 0.5)  # in slices, with other things between them
        clock.wall += 50.0
        plays(timing, clock, 1.0, 0.25)
        timing.packed(44 - number, 5.0 - number)
        timing.rollout(rollout, 4.0 - number)
    trial = timing.trial()
    assert trial is not None
    assert (trial.play, trial.play_cpu, trial.gradient) == (2.0, 0.75, 4.0 - (ROLLOUTS - 1))
    assert (trial.gradient_packing, trial.gradient_bytes) == (5.0 - (ROLLOUTS - 1), 44)
    assert (trial.trajectory_packing, trial.trajectory_bytes) == (0.0, len(packing.pack([rollout], "none")))


def test_what_was_dropped_or_cannot_be_sent_is_not_timed(clock: SimpleNamespace) -> None:
    timing = Timing(TrajectoryFormat(BOX, discrete(2), steps=3, copies=1, stack=1), "none")
    timing.packed(40, 1.0)
    timing.rollout(rollout_of(), 1.0)
    for _ in range(ROLLOUTS):
        plays(timing, clock, 100.0, 100.0)
        timing.restart()
        plays(timing, clock, 100.0, 100.0)
        timing.rollout(rollout_of(float("nan")), 1.0)
        assert timing.trial() is None
        plays(timing, clock, 1.0, 1.0)
        timing.rollout(rollout_of(), 1.0)
    trial = timing.trial()
    assert trial is not None and trial.play == 1.0


def test_without_a_gradient_that_was_packed_there_is_nothing_to_compare() -> None:
    timing = Timing(TrajectoryFormat(BOX, discrete(2), steps=3, copies=1, stack=1), "none")
    for _ in range(3 * ROLLOUTS):
        timing.rollout(rollout_of(), 1.0)
    assert timing.trial() is None
