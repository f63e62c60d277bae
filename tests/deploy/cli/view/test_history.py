from collections.abc import Callable

import pytest

from common.run.status import RunStatus
from deploy.cli.view.history import MAX_POINTS, RATE_STATUSES, History


def test_remembers_the_course_of_the_return(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    for value in (None, 1.0, 2.0):
        history.add(run_status(mean_return=value))
    assert history.returns == [1.0, 2.0]


def test_the_whole_course_stays_in_bounded_memory(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    for value in range(20 * MAX_POINTS):
        history.add(run_status(mean_return=float(value)))
    assert MAX_POINTS / 2 <= len(history.returns) < MAX_POINTS
    steps = {later - earlier for earlier, later in zip(history.returns, history.returns[1:], strict=False)}
    assert (history.returns[0], len(steps)) == (0.0, 1)
    assert history.returns[-1] > 19 * MAX_POINTS


def test_traffic_is_measured_over_the_last_statuses(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    assert history.rates() is None
    for second in range(100):
        slow = min(second, 100 - RATE_STATUSES)
        fast = second - slow
        history.add(run_status(seconds=float(second), gradient_bytes=slow + 10 * fast, weight_bytes=30 * second))
    assert history.rates() == (pytest.approx(10.0), pytest.approx(30.0))


def test_no_rate_from_a_single_status_or_a_clock_that_stands(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    history.add(run_status(seconds=5.0))
    history.add(run_status(seconds=5.0))
    assert history.rates() is None


def test_a_learner_back_from_a_checkpoint_starts_the_measuring_anew(run_status: Callable[..., RunStatus]) -> None:
    history = History()
    for seconds, size in ((10.0, 1000), (11.0, 2000), (8.0, 700), (9.0, 750)):
        history.add(run_status(seconds=seconds, gradient_bytes=size, weight_bytes=0))
    assert history.rates() == (50.0, 0.0)
