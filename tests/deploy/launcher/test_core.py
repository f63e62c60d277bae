from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.messages import FleetOrder, FleetReport, Stop, Welcome
from deploy.backends.base import Ended
from deploy.launcher.core import LauncherCore, StartActor, StopActor


class Bench:
    """A core with a clock and the actors it believes to have."""

    def __init__(self, slots: int = 4, warm: int = 0) -> None:
        self.core = LauncherCore(slots, warm)
        self.now = 1000.0
        self.reports: list[FleetReport] = []
        self.alive: set[int] = set()
        self.told: set[int] = set()

    def tick(self) -> list[StartActor | StopActor]:
        actions: list[StartActor | StopActor] = []
        for effect in self.core.tick(self.now):
            if isinstance(effect, FleetReport):
                self.reports.append(effect)
                continue
            actions.append(effect)
            if isinstance(effect, StartActor):
                assert effect.slot not in self.alive
                self.alive.add(effect.slot)
                self.told.discard(effect.slot)
            else:
                assert effect.slot in self.alive
                assert effect.kill == (effect.slot in self.told)
                self.told.add(effect.slot)
        return actions

    def order(self, actors: int) -> list[StartActor | StopActor]:
        self.core.handle(self.now, FleetOrder(actors=actors, why="test"))
        return self.tick()

    def welcome(self, epoch: int = 1) -> list[StartActor | StopActor]:
        self.core.handle(self.now, Welcome(run="r", epoch=epoch, heartbeat_seconds=2.0, expiry_seconds=30.0))
        return self.tick()

    def ended(self, slot: int, exit_code: int = 1, last_words: str = "") -> bool:
        self.alive.remove(slot)
        return self.core.ended(self.now, Ended(slot, exit_code, last_words))

    def after(self, seconds: float) -> list[StartActor | StopActor]:
        self.now += seconds
        return self.tick()

    @property
    def report(self) -> FleetReport:
        return self.core.report()


def test_nothing_before_an_order() -> None:
    bench = Bench()
    assert bench.tick() == []
    assert bench.report == FleetReport(slots=4, running=0, starting=0, failed=0)


def test_warm_actors_start_before_the_order_and_count_towards_it() -> None:
    bench = Bench(warm=2)
    assert bench.tick() == [StartActor(0), StartActor(1)]
    assert bench.order(3) == [StartActor(2)]
    assert Bench(slots=1, warm=9).tick() == [StartActor(0)]


def test_an_order_beyond_the_slots_is_clamped_and_said() -> None:
    bench = Bench(slots=2)
    assert bench.order(5) == [StartActor(0), StartActor(1)]
    assert bench.report.why == "5 actors ordered, 2 slots here"
    assert bench.order(1) == [StopActor(1)]
    assert bench.report.why == ""


def test_fewer_stops_the_newest_first() -> None:
    bench = Bench()
    bench.order(1)
    bench.now += 5
    bench.order(3)
    bench.ended(0)
    bench.after(0.5)  # slot 0 is the newest now
    assert bench.order(2) == [StopActor(0)]
    assert bench.order(1) == [StopActor(2)]


def test_fewer_gives_up_those_that_wait_before_those_that_run() -> None:
    bench = Bench()
    bench.order(2)
    bench.ended(0)
    assert bench.order(1) == []
    assert bench.after(100) == []
    assert (bench.report.running, bench.report.starting) == (1, 0)


def test_a_slot_is_free_only_when_its_actor_is_gone() -> None:
    bench = Bench(slots=2)
    bench.order(2)
    bench.order(1)
    assert bench.order(2) == []
    assert bench.report.running == 2
    assert not bench.ended(1, 143)
    assert bench.tick() == [StartActor(1)]
    assert bench.report.failed == 0


def test_one_that_does_not_leave_is_killed_once() -> None:
    bench = Bench()
    bench.order(1)
    assert bench.order(0) == [StopActor(0)]
    assert bench.core.deadline == bench.now + 3
    assert bench.after(2.9) == []
    assert bench.after(0.1) == [StopActor(0, kill=True)]
    assert bench.after(100) == []


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


def test_exit_zero_is_no_failure_but_the_actor_comes_back() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    for _ in range(20):
        assert not bench.ended(0, exit_code=0)
        assert bench.after(30) == [StartActor(0)]
    assert (bench.report.failed, bench.report.gave_up) == (0, False)


@pytest.mark.parametrize("exit_code", [2, 78])
def test_some_exit_codes_are_hopeless_at_once(exit_code: int) -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 0.5
    assert bench.ended(1, exit_code, "one\nno environment 'x'\n")
    assert bench.after(100) == []
    report = bench.report
    assert (report.gave_up, report.exit_code, report.running, report.starting) == (True, exit_code, 1, 0)
    assert report.why == f"the actor in slot 1 ended with exit code {exit_code} after 0.5 s: no environment 'x'"
    assert bench.order(4) == []
    bench.ended(0, 1)
    assert bench.after(100) == []
    assert bench.report.exit_code == exit_code


def test_five_failures_in_a_row_are_hopeless() -> None:
    bench = Bench()
    bench.order(2)
    for back_off in (0.5, 1.0):
        bench.ended(0)
        bench.ended(1)
        assert bench.after(back_off) == [StartActor(0), StartActor(1)]
    bench.now += 59.9
    assert not bench.core.gave_up
    bench.ended(0, 137)
    assert bench.after(100) == []
    report = bench.report
    assert (report.gave_up, report.exit_code, report.failed, report.running) == (True, 137, 5, 1)
    assert report.why == (
        "5 failures in a row; the actor in slot 0 ended with exit code 137 after 59.9 s: it said nothing"
    )


def test_one_that_lives_is_reason_to_go_on() -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 60.0
    for _ in range(10):
        bench.ended(0)
        assert bench.after(30) == [StartActor(0)]
    assert not bench.core.gave_up
    assert bench.report.failed == 10


def test_why_is_bounded() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0, 78, "x" * 100_000)
    assert 1000 < len(bench.report.why) < 1200


def test_another_epoch_is_reason_to_try_again() -> None:
    bench = Bench(slots=1)
    bench.welcome(epoch=1)
    bench.order(1)
    bench.ended(0, 78)
    assert bench.after(100) == []
    assert bench.welcome(epoch=1) == []
    assert bench.core.gave_up
    assert bench.welcome(epoch=2) == [StartActor(0)]
    assert not bench.report.gave_up


def test_reports_when_something_changed_and_every_heartbeat() -> None:
    bench = Bench()
    bench.welcome()
    bench.reports.clear()
    assert bench.core.deadline == bench.now + 2
    bench.after(1.9)
    assert bench.reports == []
    bench.after(0.1)
    assert [report.running for report in bench.reports] == [0]
    bench.order(2)
    assert [report.running for report in bench.reports] == [0, 2]
    bench.after(1.9)
    bench.after(0.1)
    assert [report.running for report in bench.reports] == [0, 2, 2]


def test_a_welcome_is_answered_with_a_report() -> None:
    bench = Bench()
    bench.welcome()
    count = len(bench.reports)
    bench.welcome()
    assert len(bench.reports) == count + 1


def test_a_final_stop_gives_actors_time_to_leave_by_themselves() -> None:
    bench = Bench()
    bench.order(3)
    bench.core.handle(bench.now, Stop(reason="goal", final=True))
    assert bench.tick() == []
    assert not bench.ended(0, 0)
    assert not bench.core.finished(bench.now)
    assert bench.after(3) == [StopActor(1), StopActor(2)]
    assert not bench.ended(1, 143)
    assert bench.order(3) == []
    assert bench.after(3) == [StopActor(2, kill=True)]
    assert not bench.ended(2, 137)
    assert bench.core.finished(bench.now)
    assert bench.report.failed == 0


def test_a_pause_keeps_the_actors() -> None:
    bench = Bench()
    bench.order(2)
    bench.core.handle(bench.now, Stop(reason="restart", final=False))
    assert bench.after(100) == []
    assert not bench.core.finished(bench.now)
    assert bench.report.running == 2


def test_a_stop_is_at_once_even_after_a_patient_one() -> None:
    bench = Bench()
    bench.order(1)
    bench.core.stop(bench.now, 3.0)
    assert bench.after(1) == []
    bench.core.stop(bench.now)
    assert bench.tick() == [StopActor(0)]
    bench.core.stop(bench.now)
    assert bench.tick() == []


def test_one_that_survives_a_kill_is_not_waited_for() -> None:
    bench = Bench()
    bench.order(1)
    bench.core.stop(bench.now)
    assert bench.tick() == [StopActor(0)]
    assert bench.after(3) == [StopActor(0, kill=True)]
    assert not bench.core.finished(bench.now)
    assert bench.core.deadline == bench.now + 1
    assert bench.core.finished(bench.now + 1)


def test_a_stop_during_back_off_is_the_end() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0)
    bench.core.stop(bench.now)
    assert bench.after(100) == []
    assert bench.core.finished(bench.now)


happenings = st.one_of(
    st.tuples(st.just("order"), st.integers(0, 6)),
    st.tuples(st.just("wait"), st.floats(0, 100)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("welcome"), st.integers(1, 2)),
)


@given(st.lists(happenings, max_size=60), st.sampled_from([0, 1, 75, 78, 137]))
def test_whatever_happens_it_ends_with_the_actors_ordered_or_given_up(
    script: list[tuple[str, float]], exit_code: int
) -> None:
    bench = Bench(slots=4)
    bench.tick()
    for kind, number in script:
        if kind == "order":
            bench.order(int(number))
        elif kind == "wait":
            bench.after(number)
        elif kind == "end" and int(number) in bench.alive:
            bench.ended(int(number), exit_code)
            bench.tick()
        elif kind == "welcome":
            bench.welcome(int(number))
        assert bench.report.running == len(bench.alive)
        assert bench.core.deadline > bench.now, "the loop would spin"
    for _ in range(100):
        for slot in bench.told & bench.alive:
            bench.ended(slot, 143)
        bench.after(min(30.0, max(0.0, bench.core.deadline - bench.now)))
    assert len(bench.alive) == bench.core.wanted or bench.core.gave_up
    assert not bench.report.starting
