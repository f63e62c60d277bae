from dataclasses import replace

import pytest

from common.settings.sections import Scaling
from learner.scaling.load import propose
from learner.scaling.measure import Measurement

SECTION = Scaling(policy="load", minimum=1, maximum=40)
MEASURED = Measurement(
    actors=10,
    wanted=10,
    episodes_since=0,
    mean_episode_seconds=None,
    learner_busy=0.7,
    lag_mean=3.0,
    gradients_per_second=100.0,
    steps_per_second=100.0,
)


def settle(busy_per_actor: float, actors: int, section: Scaling = SECTION) -> list[int]:
    course = [actors]
    for _ in range(30):
        busy = min(1.0, course[-1] * busy_per_actor)
        course.append(
            propose(section, replace(MEASURED, actors=course[-1], wanted=course[-1], learner_busy=busy)).wanted
        )
    return course


@pytest.mark.parametrize("start", [1, 7, 40])
@pytest.mark.parametrize("busy_per_actor", [0.3, 0.1, 0.05, 0.021])
def test_comes_to_rest_below_the_limit_from_either_side(busy_per_actor: float, start: int) -> None:
    course = settle(busy_per_actor, start)
    assert course[-1] * busy_per_actor <= SECTION.busy_limit
    assert (course[-1] + 1) * busy_per_actor > 0.85 * SECTION.busy_limit
    assert len(set(course[-10:])) == 1


@pytest.mark.parametrize("busy", [0.69, 0.7, 0.75, 0.8])
def test_the_number_rests_between_target_and_limit(busy: float) -> None:
    assert propose(SECTION, replace(MEASURED, learner_busy=busy)).wanted == 10


def test_grows_by_half_at_most() -> None:
    decision = propose(SECTION, replace(MEASURED, learner_busy=0.01))
    assert (decision.wanted, decision.why) == (15, "learner busy 1% leaves room below 68%: 10 -> 15 actors")


def test_an_idle_learner_goes_to_the_maximum_and_no_further() -> None:
    assert settle(0.0, 1)[-1] == 40


def test_shrinks_at_once_to_what_fits() -> None:
    decision = propose(SECTION, replace(MEASURED, learner_busy=1.0))
    assert (decision.wanted, decision.why) == (6, "learner busy 100% > 80%: 10 -> 6 actors")


def test_never_below_the_minimum_and_never_to_none() -> None:
    assert propose(Scaling(policy="load", minimum=9, maximum=10), replace(MEASURED, learner_busy=1.0)).wanted == 9
    none = Scaling(policy="load", minimum=0, maximum=10)
    assert propose(none, replace(MEASURED, actors=1, wanted=1, learner_busy=1.0)).wanted == 1


def test_old_gradients_take_actors_away_and_keep_them_away_until_they_are_young() -> None:
    old = propose(SECTION, replace(MEASURED, learner_busy=0.2, lag_mean=16.0))
    assert (old.wanted, "1.6 > 1.5 rollouts old" in old.why) == (7, True)
    middling = propose(SECTION, replace(MEASURED, learner_busy=0.2, lag_mean=12.0))
    assert (middling.wanted, "1.2 rollouts old" in middling.why) == (10, True)


def test_waits_until_the_last_change_has_happened() -> None:
    for actors in (9, 11):
        decision = propose(SECTION, replace(MEASURED, actors=actors, learner_busy=0.01))
        assert decision.wanted == 10
        assert f"{actors} of 10 actors here" in decision.why


def test_the_first_actor_is_there_to_measure_with() -> None:
    assert propose(SECTION, replace(MEASURED, actors=0, wanted=0)).wanted == 1


def test_silence_is_not_idleness() -> None:
    assert propose(SECTION, replace(MEASURED, learner_busy=0.0, gradients_per_second=0.0)).wanted == 10
