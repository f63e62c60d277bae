from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from common.settings.sections import Scaling
from learner.scaling import Measurement
from learner.scaling.episode_duration import addition, lowest, propose
from learner.scaling.policy import Scaler
from tests.helpers.fleet import SimulatedFleet
from tests.helpers.measurements import measured

PUBLISHED = Scaling(policy="episode-duration", unit="seconds", minimum=2, maximum=10, episodes_between=1000)
LINEAR = structs.replace(PUBLISHED, form="linear")
RELATIVE = Scaling(policy="episode-duration", minimum=2, maximum=10)
GROWING = (
    *("scaling.policy=episode-duration", "scaling.minimum=2", "scaling.maximum=10"),
    "scaling.episodes_between=1000",
)


def lasting(seconds: float | None, episodes_since: int, actors: int = 6, crossings: int = 0) -> Measurement:
    return measured(
        actors=actors,
        mean_episode_seconds=seconds,
        mean_episode_length=seconds,
        first_length=10.0,
        episodes_since=episodes_since,
        crossings=crossings,
    )


def grown(course: list[tuple[float, int]]) -> list[int]:
    return [wanted for _, wanted in course]


# -- the rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1.0, (0, 20.0)), (20.0, (0, 20.0)), (20.1, (1, 20.0)), (40.0, (1, 20.0)), (40.1, (2, 40.0)), (600.0, (3, 60.0))],
)
def test_steps_adds_what_the_highest_exceeded_threshold_says(seconds: float, expected: tuple[int, float]) -> None:
    assert addition(PUBLISHED, seconds) == expected


def test_steps_may_be_written_in_any_order() -> None:
    section = Scaling(unit="seconds", thresholds_seconds=[60.0, 20.0], additions=[5, 1])
    assert [addition(section, seconds)[0] for seconds in (10.0, 30.0, 61.0)] == [0, 1, 5]


@pytest.mark.parametrize(
    ("seconds", "crossings", "expected"),
    [
        *[(20.0, 0, (0, 20.0)), (20.1, 0, (1, 20.0)), (75.0, 0, (1, 20.0))],
        *[(29.9, 1, (0, 30.0)), (30.1, 1, (1, 30.0)), (75.0, 5, (1, 70.0)), (75.0, 6, (0, 80.0))],
    ],
)
def test_linear_adds_one_at_each_further_crossing(seconds: float, crossings: int, expected: tuple[int, float]) -> None:
    assert addition(LINEAR, seconds, crossings) == expected


@pytest.mark.parametrize(("multiple", "more"), [(1.0, 0), (2.0, 0), (2.1, 1), (4.1, 2), (22.0, 3)])
def test_by_default_the_first_episodes_are_the_measure(multiple: float, more: int) -> None:
    measurement = replace(lasting(22.0 * multiple, 1000, actors=4), first_length=22.0, mean_episode_seconds=1e-3)
    decision = propose(RELATIVE, measurement)
    assert decision.wanted == 4 + more
    assert f"mean episode {multiple:.1f} x the first ones' 22 steps" in decision.why


def test_the_lowest_threshold() -> None:
    assert [lowest(section) for section in (PUBLISHED, LINEAR, RELATIVE)] == [20.0, 20.0, 2.0]


@pytest.mark.parametrize(("section", "wanted"), [(PUBLISHED, 8), (LINEAR, 7)])
def test_an_addition_comes_with_its_numbers(section: Scaling, wanted: int) -> None:
    bound = 40 if wanted == 8 else 20
    decision = propose(section, lasting(43.21, 1204))
    why = f"mean episode 43.2 s > {bound} s, 1204 episodes since the last addition: 6 -> {wanted} actors"
    assert (decision.wanted, decision.why) == (wanted, why)


def test_additions_are_so_many_episodes_apart() -> None:
    assert propose(PUBLISHED, lasting(25.0, 1000)).wanted == 7
    decision = propose(PUBLISHED, lasting(25.0, 999))
    assert decision.wanted == 6
    assert "999 episodes since the last addition, 1000 are to pass" in decision.why


def test_never_above_the_maximum() -> None:
    assert propose(PUBLISHED, lasting(90.0, 1000, actors=9)).wanted == 10
    decision = propose(PUBLISHED, lasting(90.0, 1000, actors=10))
    assert (decision.wanted, "at the maximum" in decision.why) == (10, True)


def test_never_takes_actors_away() -> None:
    decision = propose(PUBLISHED, lasting(3.0, 9000, actors=7))
    assert (decision.wanted, decision.why) == (7, "mean episode 3.0 s, none is added up to 20 s: 7 actors")


def test_waits_for_episodes() -> None:
    assert propose(PUBLISHED, lasting(None, 9000)).wanted == 6
    unknown = propose(RELATIVE, measured(mean_episode_length=25.0, mean_episode_seconds=0.1, episodes_since=9000))
    assert (unknown.wanted, "measuring the first ones" in unknown.why) == (10, True)


# -- agents that learn -------------------------------------------------------------------------------------------------


def learning(*settings: str, seconds_after: float, per_thousand: float, actors: int = 40) -> SimulatedFleet:
    """Episodes last `seconds_after` at first, and so much more after each thousand; a step lasts a tenth of a second.

    There are as many copies as an actor plays 2,000 steps a second with.
    """
    return SimulatedFleet(
        (*GROWING, f"scaling.maximum={actors}", *settings),
        rollout_seconds=0.5,
        learner_seconds=0.0005,
        rollout_steps=1000,
        episode_length=lambda episodes: 10 * (seconds_after + per_thousand * episodes / 1000),
        step_seconds=0.1,
    )


def test_the_published_steps_from_an_agent_that_learns() -> None:
    fleet = learning("scaling.unit=seconds", seconds_after=10.0, per_thousand=5.0)
    fleet.play(1200)
    assert grown(fleet.course)[:8] == [2, 3, 4, 5, 6, 8, 10, 12]
    additions = [line for line in fleet.lines if "episodes since" in line]
    assert [line.split(" > ")[1].split(" s")[0] for line in additions][:7] == ["20"] * 4 + ["40"] * 3
    since = [int(line.split(" s, ")[1].split()[0]) for line in additions]
    assert all(episodes >= 1000 for episodes in since)


def test_the_published_line_adds_two_in_all_where_episodes_stay_at_35_seconds() -> None:
    fleet = learning("scaling.unit=seconds", "scaling.form=linear", seconds_after=35.0, per_thousand=0.0)
    fleet.play(1500)
    assert grown(fleet.course) == [2, 3, 4]
    assert fleet.run.stats.counters.episodes > 8000
    assert fleet.run.stats.counters.crossings == 2


def test_the_published_line_adds_one_for_each_ten_seconds_that_episodes_grow() -> None:
    fleet = learning("scaling.unit=seconds", "scaling.form=linear", seconds_after=10.0, per_thousand=5.0)
    fleet.play(900)
    bounds = [float(line.split(" > ")[1].split(" s")[0]) for line in fleet.lines if "episodes since" in line]
    assert len(bounds) >= 3
    assert bounds == [20.0 + 10.0 * number for number in range(len(bounds))]
    assert grown(fleet.course) == list(range(2, 3 + len(bounds)))


def test_by_default_actors_come_as_the_agent_gets_better_whatever_a_step_lasts() -> None:
    fleet = SimulatedFleet(
        (*GROWING, "environment.num_envs=1"),
        rollout_seconds=0.01,
        learner_seconds=0.00001,
        rollout_steps=100,
        episode_length=lambda episodes: min(500.0, 22.0 + episodes / 20),
        step_seconds=1e-5,
    )
    fleet.play(60)
    assert fleet.run.stats.counters.first_length == pytest.approx(22 + 2.5, abs=2)
    assert grown(fleet.course)[-1] >= 6
    assert any("x the first ones'" in line for line in fleet.lines)


def test_an_agent_that_learns_nothing_gets_no_more_actors_however_slow_its_steps_become() -> None:
    fleet = SimulatedFleet(
        (*GROWING, "environment.num_envs=1"),
        rollout_seconds=0.05,
        learner_seconds=0.00001,
        rollout_steps=100,
        episode_length=lambda _: 22.0,
    )
    fleet.play(20)
    fleet.step_seconds = 5.0
    fleet.play(40)
    assert grown(fleet.course) == [2]


def test_no_more_are_added_where_they_bring_no_frames() -> None:
    fleet = SimulatedFleet(
        (*GROWING, "environment.num_envs=1", "scaling.maximum=40"),
        rollout_seconds=0.05,
        learner_seconds=0.00001,
        rollout_steps=200,
        episode_length=lambda episodes: 22.0 + episodes / 20,
        cores=4,
    )
    numbers = fleet.play(300)
    assert numbers[-1] <= 10
    assert numbers[-1] == numbers[-150]
    assert fleet.run.stats.decision.held == "gain"
    assert "frames/s" in fleet.why and fleet.why.startswith("held at ")
    assert sum("held at" in line for line in fleet.lines) == 1


def test_nothing_is_added_to_a_fleet_that_has_not_been_measured() -> None:
    scaler = Scaler(PUBLISHED)
    unknowns: list[dict[str, Any]] = [{"seconds": 0.0}, {"wanted": 7}]
    for unknown in unknowns:
        decision = scaler.decide(0.0, replace(lasting(25.0, 1000), **unknown))
        assert decision.wanted in (6, 7) and not decision.held
        assert "; then mean episode 25.0 s > 20 s" in decision.why
