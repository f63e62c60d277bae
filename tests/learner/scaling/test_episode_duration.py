from typing import Literal

import pytest

from common.settings.sections import Scaling
from learner.scaling.episode_duration import addition, propose
from learner.scaling.measure import Measurement

STEPS = Scaling(policy="episode-duration", minimum=2, maximum=10)
LINEAR = Scaling(policy="episode-duration", minimum=2, maximum=10, form="linear")


def measured(wanted: int, seconds: float | None, episodes_since: int) -> Measurement:
    return Measurement(
        actors=wanted,
        wanted=wanted,
        episodes_since=episodes_since,
        mean_episode_seconds=seconds,
        learner_busy=0.1,
        lag_mean=0.0,
        gradients_per_second=1.0,
        steps_per_second=1.0,
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1.0, (0, 20.0)), (20.0, (0, 20.0)), (20.1, (1, 20.0)), (40.0, (1, 20.0)), (40.1, (2, 40.0)), (600.0, (3, 60.0))],
)
def test_steps_adds_what_the_highest_exceeded_threshold_says(seconds: float, expected: tuple[int, float]) -> None:
    assert addition(STEPS, seconds) == expected


def test_steps_may_be_written_in_any_order() -> None:
    section = Scaling(policy="episode-duration", thresholds_seconds=[60.0, 20.0], additions=[5, 1])
    assert [addition(section, seconds)[0] for seconds in (10.0, 30.0, 61.0)] == [0, 1, 5]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(20.0, (0, 20.0)), (20.1, (1, 20.0)), (29.9, (1, 20.0)), (30.1, (2, 30.0)), (75.0, (6, 70.0))],
)
def test_linear_adds_one_more_per_further_ten_seconds(seconds: float, expected: tuple[int, float]) -> None:
    assert addition(LINEAR, seconds) == expected


@pytest.mark.parametrize(("form", "wanted"), [("steps", 8), ("linear", 9)])
def test_an_addition_comes_with_its_numbers(form: Literal["steps", "linear"], wanted: int) -> None:
    section = Scaling(policy="episode-duration", maximum=10, form=form)
    decision = propose(section, measured(6, 43.21, 1204))
    assert decision.wanted == wanted
    assert decision.why == (f"mean episode 43.2 s > 40 s, 1204 episodes since the last addition: 6 -> {wanted} actors")


def test_additions_are_so_many_episodes_apart() -> None:
    assert propose(STEPS, measured(6, 25.0, 1000)).wanted == 7
    decision = propose(STEPS, measured(6, 25.0, 999))
    assert decision.wanted == 6
    assert "999 episodes since the last addition, 1000 are to pass" in decision.why


def test_never_above_the_maximum() -> None:
    assert propose(STEPS, measured(9, 90.0, 1000)).wanted == 10
    decision = propose(STEPS, measured(10, 90.0, 1000))
    assert (decision.wanted, "at the maximum" in decision.why) == (10, True)


def test_never_takes_actors_away() -> None:
    decision = propose(STEPS, measured(7, 3.0, 9000))
    assert (decision.wanted, decision.why) == (7, "mean episode 3.0 s, none is added up to 20 s: 7 actors")


def test_waits_for_a_first_episode() -> None:
    assert propose(STEPS, measured(2, None, 9000)).wanted == 2
