from collections.abc import Callable

from common.run.status import RunStatus
from deploy.cli.view.history import MAX_POINTS, History


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
