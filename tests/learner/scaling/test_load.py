from __future__ import annotations

from typing import Any

import pytest

from common.settings.sections import Scaling
from learner.scaling import Decision, Measurement
from learner.scaling.experience import Experience
from learner.scaling.load import propose
from tests.helpers.fleet import SimulatedFleet
from tests.helpers.measurements import measured

SECTION = Scaling(policy="load", minimum=1, maximum=40)
LOAD = ("scaling.policy=load", "scaling.minimum=1", "scaling.maximum=40")


def proposed(measurement: Measurement, section: Scaling = SECTION) -> Decision:
    return propose(section, 0.0, measurement, Experience(section))


def rests(numbers: list[int], tail: int, within: int = 1) -> bool:
    return max(numbers[-tail:]) - min(numbers[-tail:]) <= within


# -- fleets that change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "seconds"), [(5, 900), (50, 240), (500, 120), (5000, 40)])
def test_comes_to_rest_where_the_learner_is_busy_enough(speed: float, seconds: float) -> None:
    """About 25 actors' gradients fill a learner that takes `speed` of them a second to nine tenths."""
    interval = "scaling.interval_seconds=0.2" if speed == 5000 else "scaling.interval_seconds=1"
    fleet = SimulatedFleet(
        (*LOAD, interval),
        rollout_seconds=25 / speed,
        learner_seconds=0.9 / speed,
        start_seconds=0.5 if speed == 5000 else 3.0,
    )
    numbers = fleet.play(seconds)
    assert 18 <= numbers[-1] <= 25
    assert rests(numbers, len(numbers) // 4)
    assert sorted(numbers) == numbers, "it never overshot"


@pytest.mark.parametrize("first", [1, 20, 40])
def test_finds_the_most_actors_whose_gradients_are_young(first: int) -> None:
    """With 18 and more, weights come later: gradients are 1.6 rollouts old; with 17 as young as can be."""
    fleet = SimulatedFleet(
        (*LOAD, "scaling.interval_seconds=1"),
        rollout_seconds=0.5,
        learner_seconds=0.001,
        weights_delay=lambda actors: 0.35 if actors >= 18 else 0.0,
    )
    fleet.run.stats.decided(Decision(first, "so many at first"))
    numbers = fleet.play(500)
    assert numbers[-1] == 17
    assert rests(numbers, 350), "and stays, also while more are tried"
    assert min(numbers[numbers.index(max(numbers)) :]) >= 10, "no run to the minimum"


def test_a_learner_that_grows_slow_loses_actors_and_gets_them_back() -> None:
    fleet = SimulatedFleet((*LOAD, "scaling.interval_seconds=1"), rollout_seconds=0.5, learner_seconds=0.02)
    before = fleet.play(150)[-1]
    fleet.learner_seconds = 0.04
    during = fleet.play(150)[-1]
    fleet.learner_seconds = 0.02
    after = fleet.play(1500)[-1]
    assert 15 <= before <= 21
    assert 7 <= during <= 10
    assert after >= before - 2


def test_a_full_host_gets_no_actors_that_bring_no_frames() -> None:
    fleet = SimulatedFleet((*LOAD, "scaling.interval_seconds=1"), rollout_seconds=0.1, learner_seconds=0.001, cores=6)
    numbers = fleet.play(500)
    assert 6 <= numbers[-1] <= 9
    assert rests(numbers, 300)
    assert "frames/s" in fleet.why
    assert any("-> " in line and "frames/s" in line for line in fleet.lines), "said in the log, with the numbers"


def test_a_full_host_is_tried_again_when_another_launcher_comes() -> None:
    fleet = SimulatedFleet((*LOAD, "scaling.interval_seconds=1"), rollout_seconds=0.1, learner_seconds=0.001, cores=6)
    before = fleet.play(200)[-1]
    fleet.cores = 12
    assert fleet.play(100)[-1] == before
    fleet.launcher(b"second")
    after = fleet.play(300)
    assert 10 <= after[-1] <= 18 and rests(after, 100)


def test_actors_that_come_up_slowly_are_waited_for() -> None:
    fleet = SimulatedFleet(
        (*LOAD, "scaling.interval_seconds=1"), rollout_seconds=0.25, learner_seconds=0.01, start_seconds=20.0
    )
    numbers = fleet.play(500)
    assert 14 <= numbers[-1] <= 20 and sorted(numbers) == numbers


def test_gradients_old_for_another_reason_than_their_number_take_no_actors_away_for_good() -> None:
    fleet = SimulatedFleet(
        (*LOAD, "scaling.interval_seconds=1"),
        rollout_seconds=0.1,
        learner_seconds=0.001,
        weights_delay=lambda _: 0.2,
        cores=20,
    )
    fleet.run.stats.decided(Decision(12, "so many at first"))
    numbers = fleet.play(300)
    assert min(numbers) >= 5 and numbers[-1] >= 12


def test_actors_started_by_hand_leave_room_for_fewer_others() -> None:
    plain: dict[str, Any] = {"rollout_seconds": 0.25, "learner_seconds": 0.01}
    alone = SimulatedFleet((*LOAD, "scaling.interval_seconds=1"), **plain)
    joined = SimulatedFleet((*LOAD, "scaling.interval_seconds=1"), **plain)
    for _ in range(5):
        joined.join_by_hand()
    assert abs(alone.play(200)[-1] - 5 - joined.play(200)[-1]) <= 2


# -- single decisions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [0.69, 0.7, 0.75, 0.8])
def test_the_number_rests_between_target_and_limit(busy: float) -> None:
    assert proposed(measured(learner_busy=busy)).wanted == 10


def test_grows_by_half_at_most() -> None:
    decision = proposed(measured(learner_busy=0.01))
    assert (decision.wanted, decision.why) == (15, "learner busy 1% leaves room below 68%: 10 -> 15 actors")


def test_shrinks_at_once_to_what_fits() -> None:
    decision = proposed(measured(learner_busy=1.0))
    assert (decision.wanted, decision.why) == (6, "learner busy 100% > 80%: 10 -> 6 actors")


def test_a_moment_of_work_takes_no_actors_away() -> None:
    decision = proposed(measured(learner_busy=1.0, frames_per_second=(100.0,)))
    assert (decision.wanted, "for a moment yet" in decision.why) == (10, True)


def test_never_below_the_minimum_and_never_to_none() -> None:
    assert proposed(measured(learner_busy=1.0), Scaling(policy="load", minimum=9, maximum=10)).wanted == 9
    none = Scaling(policy="load", minimum=0, maximum=10)
    assert proposed(measured(actors=1, learner_busy=1.0), none).wanted == 1


def test_old_gradients_take_actors_away_and_keep_others_out_until_they_are_young() -> None:
    old = proposed(measured(learner_busy=0.2, lag_mean=16.0))
    assert (old.wanted, "1.6 > 1.5 rollouts old" in old.why) == (7, True)
    middling = proposed(measured(learner_busy=0.2, lag_mean=13.0))
    assert (middling.wanted, "1.3 rollouts old" in middling.why) == (10, True)


def test_waits_until_the_last_change_has_happened() -> None:
    for actors in (9, 11):
        decision = proposed(measured(actors=actors, wanted=10, learner_busy=0.01))
        assert decision.wanted == 10
        assert f"{actors} of 10 actors here" in decision.why


def test_fewer_than_were_ordered_may_be_too_many_already() -> None:
    assert proposed(measured(actors=8, wanted=10, learner_busy=1.0)).wanted == 5


def test_the_first_actor_is_there_to_measure_with() -> None:
    assert proposed(measured(actors=0, wanted=0)).wanted == 1


def test_silence_is_not_idleness() -> None:
    assert proposed(measured(learner_busy=0.0, seconds=0.0, frames_per_second=())).wanted == 10
