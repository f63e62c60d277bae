import pytest

from common.settings.sections import Scaling
from learner.scaling.measure import change, count, overload, waiting
from tests.helpers.measurements import measured


def test_age_of_gradients_whose_weights_came_before_the_rollout_is_about_one() -> None:
    assert measured(lag_mean=9.0).age_in_rollouts == pytest.approx(0.9)


def test_age_counts_optimizer_steps_that_take_several_gradients() -> None:
    assert measured(lag_mean=4.5, steps_per_second=50.0).age_in_rollouts == pytest.approx(0.9)


def test_age_counts_the_rollouts_of_a_message() -> None:
    once = measured(lag_mean=9.0, steps_per_second=25.0, rollouts_per_second=25.0)
    added_up = measured(lag_mean=9.0, steps_per_second=25.0, rollouts_per_second=100.0)
    assert (once.age_in_rollouts, added_up.age_in_rollouts) == (pytest.approx(0.9), pytest.approx(3.6))


def test_age_of_nothing_is_unknown() -> None:
    assert measured(lag_mean=9.0, actors=0).age_in_rollouts is None
    assert measured(lag_mean=9.0, steps_per_second=0.0).age_in_rollouts is None


def test_a_lag_of_a_few_steps_tells_no_age() -> None:
    assert measured(actors=1, lag_mean=4.0).age_in_rollouts is None


def test_a_learner_is_overloaded_if_it_is_busy_or_its_gradients_are_old() -> None:
    section = Scaling(minimum=2, maximum=10)
    assert overload(section, measured()) is None
    assert overload(section, measured(learner_busy=0.91)) == "learner busy 91% > 80%"
    assert overload(section, measured(lag_mean=18.0)) == "gradients 1.8 > 1.5 rollouts old (lag 18.0)"
    assert overload(section, measured(learner_busy=0.91, seconds=0.0)) is None, "not measured yet"


def test_figures_tell_nothing_until_the_fleet_that_is_wanted_has_been_measured() -> None:
    assert waiting(measured()) is None
    assert waiting(measured(actors=9, wanted=10)) == "waiting for the last change, 9 of 10 actors here"
    assert waiting(measured(actors=12, wanted=10, by_hand=2)) is None
    assert waiting(measured(seconds=0.0)) == "measuring 10 actors"


def test_words() -> None:
    assert (count(1), count(2), count(0)) == ("1 actor", "2 actors", "0 actors")
    assert (change(6, 7), change(2, 1), change(3, 3)) == ("6 -> 7 actors", "2 -> 1 actor", "3 actors")
