from __future__ import annotations

from deploy.launcher.slot import StartActor, StopActor
from tests.helpers.bench import Bench


def test_back_off_doubles_to_half_a_minute() -> None:
    bench = Bench(slots=2)
    bench.order(2)
    bench.now += 60  # the other one runs on: no reason for giving up
    for delay in (0.5, 1, 2, 4, 8, 16, 30, 30):
        assert bench.ended(0)
        assert bench.core.deadline == bench.now + delay
        assert bench.after(delay * 0.99) == []
        assert bench.report.starting == 1
        assert bench.after(delay * 0.01) == [StartActor(0)]
        bench.now += 40
    assert bench.report.failed == 8
    assert not bench.report.gave_up


def test_a_minute_of_running_resets_the_back_off() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    for lived, delay in ((59.9, 0.5), (59.9, 1.0), (60.0, 0.5), (0.0, 1.0)):
        bench.now += lived
        bench.ended(0)
        assert bench.core.deadline == bench.now + delay
        assert bench.after(delay) == [StartActor(0)]


def test_an_actor_in_back_off_is_not_hurried_by_orders() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    bench.ended(0)
    assert bench.order(0) == []
    assert bench.order(1) == []
    assert bench.after(0.5) == [StartActor(0)]


def test_one_that_does_not_leave_is_killed_once() -> None:
    bench = Bench()
    bench.order(1)
    assert bench.order(0) == [StopActor(0)]
    assert bench.core.deadline == bench.now + 3
    assert bench.after(2.9) == []
    assert bench.after(0.1) == [StopActor(0, kill=True)]
    assert bench.after(100) == []
