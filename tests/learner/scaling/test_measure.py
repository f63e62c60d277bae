from dataclasses import replace

import pytest

from common.settings.sections import Scaling
from learner.scaling.measure import Measurement, change, count, overload

MEASURED = Measurement(
    actors=10,
    wanted=10,
    episodes_since=0,
    mean_episode_seconds=None,
    learner_busy=0.5,
    lag_mean=9.0,
    gradients_per_second=100.0,
    steps_per_second=100.0,
)


def test_age_of_gradients_whose_weights_came_before_the_rollout_is_about_one() -> None:
    assert MEASURED.age_in_rollouts == pytest.approx(0.9)


def test_age_counts_steps_not_gradients() -> None:
    assert replace(MEASURED, lag_mean=4.5, steps_per_second=50.0).age_in_rollouts == pytest.approx(0.9)


def test_age_of_nothing_is_unknown() -> None:
    assert replace(MEASURED, actors=0).age_in_rollouts is None
    assert replace(MEASURED, steps_per_second=0.0).age_in_rollouts is None


def test_a_lag_of_a_few_steps_tells_no_age() -> None:
    assert replace(MEASURED, actors=1, lag_mean=4.0).age_in_rollouts is None


def test_a_learner_is_overloaded_if_it_is_busy_or_its_gradients_are_old() -> None:
    section = Scaling(minimum=2, maximum=10)
    assert overload(section, MEASURED) is None
    assert overload(section, replace(MEASURED, learner_busy=0.91)) == "learner busy 91% > 80%"
    assert overload(section, replace(MEASURED, lag_mean=18.0)) == "gradients 1.8 > 1.5 rollouts old (lag 18.0)"


def test_words() -> None:
    assert (count(1), count(2), count(0)) == ("1 actor", "2 actors", "0 actors")
    assert (change(6, 7), change(2, 1), change(3, 3)) == ("6 -> 7 actors", "2 -> 1 actor", "3 actors")
