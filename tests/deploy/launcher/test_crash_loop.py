from __future__ import annotations

import pytest

from common.wire.messages import FleetOrder
from deploy.backends.background_loop import Report
from deploy.backends.base import Observation
from deploy.launcher.core import LauncherCore
from tests.helpers.bench import Bench


@pytest.mark.parametrize("exit_code", [2, 78])
def test_some_exit_codes_are_hopeless_at_once(exit_code: int) -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 0.5
    assert bench.ended(1, exit_code, "one\nno environment 'x'\n")
    assert bench.after(59.9) == []
    report = bench.report
    assert (report.gave_up, report.exit_code, report.running, report.starting) == (True, exit_code, 1, 0)
    assert report.why == f"the actor in slot 1 ended with exit code {exit_code} after 0.5 s: no environment 'x'"
    assert report.retry_seconds == 1
    assert bench.order(4) == []


def test_what_is_hopeless_is_tried_by_one_actor_ever_more_slowly_and_for_ever() -> None:
    bench = Bench()
    bench.order(4)
    for slot in range(4):
        bench.ended(slot, 78)
    for pause in (60, 120, 240, 480, 600, 600, 600):
        assert bench.report.retry_seconds == pause
        assert bench.after(pause - 0.1) == []
        assert bench.report.slots == 0, "the learner orders them elsewhere"
        (started,) = bench.after(0.1)
        assert (bench.report.slots, bench.report.gave_up, bench.report.retry_seconds) == (1, True, 0)
        assert bench.after(30) == []
        bench.ended(int(started.split()[1]), 78)


def test_an_actor_that_tried_and_lives_is_reason_to_start_the_others() -> None:
    bench = Bench()
    bench.order(3)
    for slot in range(3):
        bench.ended(slot, 78)
    assert bench.after(59.9) == []
    assert len(bench.after(0.1)) == 1
    assert bench.after(59.9) == []
    assert len(bench.after(0.1)) == 2
    report = bench.report
    assert (report.gave_up, report.running, report.slots, report.why) == (False, 3, 4, "")
    bench.ended(0, 78)
    assert bench.report.retry_seconds == 60, "as if nothing had been"


def test_one_that_ran_on_is_no_try() -> None:
    bench = Bench()
    bench.order(3)
    bench.ended(1, 78)
    bench.now += 30
    bench.ended(0, 75)
    assert bench.after(29.9) == []
    assert bench.after(0.1) == ["start 3"]
    bench.ended(2, 75)
    assert bench.report.gave_up
    assert bench.after(59.9) == [], "only the one that tries"
    assert len(bench.after(0.1)) == 2


def test_five_failures_of_one_slot_in_a_row_are_hopeless_for_a_while() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    for back_off in (0.5, 1.0, 2.0, 4.0):
        bench.ended(0)
        assert bench.after(back_off) == ["start 0"]
    bench.now += 59.9
    assert not bench.core.gave_up
    bench.ended(0, 137)
    report = bench.report
    assert (report.gave_up, report.exit_code, report.failed, report.running) == (True, 137, 5, 0)
    assert report.why == (
        "5 failures in a row; the actor in slot 0 ended with exit code 137 after 59.9 s: it said nothing"
    )
    assert report.retry_seconds == 10
    assert bench.after(9.9) == []
    assert bench.after(0.1) == ["start 0"]
    bench.ended(0, 137)
    assert (bench.report.failed, bench.report.retry_seconds) == (6, 20)


def test_what_fails_in_all_slots_at_one_moment_counts_once() -> None:
    bench = Bench()
    bench.order(4)
    for back_off in (0.5, 1.0, 2.0, 4.0):
        for slot in range(4):
            bench.ended(slot, 1, "Input/output error")
        assert len(bench.after(back_off)) == 4
    assert not bench.core.gave_up, "a fault of seven seconds"


def test_a_fault_that_outlasts_them_is_not_for_good() -> None:
    bench = Bench()
    bench.order(4)
    for back_off in (0.5, 1.0, 2.0, 4.0, 0.0):
        for slot in range(4):
            bench.ended(slot)
        bench.after(back_off)
    assert bench.core.gave_up
    assert len(bench.after(10)) == 1
    assert len(bench.after(60)) == 3
    assert not bench.core.gave_up


def test_one_that_lives_is_reason_to_go_on() -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 60.0
    for _ in range(10):
        bench.ended(0)
        assert bench.after(30) == ["start 0"]
    assert not bench.core.gave_up
    assert bench.report.failed == 10


def test_why_is_bounded() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0, 78, "x" * 100_000)
    assert 1000 < len(bench.report.why) < 1200


def test_the_seconds_to_the_next_try_are_no_news() -> None:
    bench = Bench()
    bench.welcome()
    bench.order(1)
    bench.ended(0, 78)
    bench.tick()
    bench.reports.clear()
    bench.after(1.9)
    assert bench.reports == []
    bench.after(0.1)
    assert [report.retry_seconds for report in bench.reports] == [58]


def test_another_epoch_is_reason_to_try_again() -> None:
    bench = Bench(slots=1)
    bench.welcome(epoch=1)
    bench.order(1)
    bench.ended(0, 78)
    assert bench.after(30) == []
    assert bench.welcome(epoch=1) == []
    assert bench.core.gave_up
    assert bench.welcome(epoch=2) == ["start 0"]
    assert not bench.report.gave_up


def test_a_bad_host_is_no_reason_to_give_up_the_others() -> None:
    bench = Bench(slots=2, hosts=["h2", "h3"])
    assert bench.order(2) == ["start 0", "start 0 on 1"]
    bench.now += 0.5
    bench.ended(0, 78, "no environment 'x'")
    assert bench.tick() == ["start 1 on 1"], "in place of the one on h2"
    report = bench.report
    assert (report.gave_up, report.exit_code, report.slots, report.running) == (False, 0, 2, 2)
    assert (report.why, report.retry_seconds) == (
        "h2: the actor in slot 0 ended with exit code 78 after 0.5 s: no environment 'x'",
        60,
    )
    bench.ended(0, 2, "usage", place=1)
    assert bench.after(30) == []
    report = bench.report
    assert (report.gave_up, report.exit_code) == (True, 78)
    assert "; h3: the actor in slot 0 ended with exit code 2" in report.why


def test_an_actor_that_lives_on_one_host_proves_nothing_of_another() -> None:
    bench = Bench(slots=1, hosts=["h2", "h3"])
    bench.order(2)
    bench.now += 60
    for _ in range(5):
        bench.ended(0, 127, "a3cd: not found")
        bench.after(30)
    assert "h2: 5 failures" not in bench.report.why, "the first had lived a minute"
    bench.ended(0, 127, "a3cd: not found")
    assert bench.report.why.startswith("h2: 5 failures in a row; the actor in slot 0 ended with exit code 127")
    assert not bench.core.gave_up


class Limited:
    """A place with four slots that has room for fewer actors, and refuses to start others."""

    def __init__(self, room: int, unsure: bool = False) -> None:
        self.core = LauncherCore([4])
        self.core.observe(0.0, 0, Report(Observation()))
        self.core.handle(0.0, FleetOrder(actors=4, why="test"))
        self.room = room
        self.unsure = unsure
        self.alive: set[int] = set()

    def turn(self, now: float) -> int:
        """Two reports; returns how many starts were requested in between."""
        self.core.tick(now)
        start = self.core.observe(now, 0, Report(self.seen)).requests.start
        self.alive |= set(sorted(start)[: max(0, self.room - len(self.alive))])
        refused = not start <= self.alive
        self.core.observe(now, 0, Report(self.seen, problem="over quota" if refused else "", undone=refused))
        return len(start)

    @property
    def seen(self) -> Observation:
        return Observation(frozenset(self.alive), unsure=self.unsure)


def test_where_starts_are_refused_again_and_again_there_are_no_more_slots_until_one_is_accepted() -> None:
    place = Limited(room=2)
    for now, asked in ((1.0, 4), (2.0, 2), (4.0, 2), (8.0, 2)):
        assert place.turn(now) == asked
        assert place.core.report(now).slots == 4
    assert place.turn(16.0) == 2
    report = place.core.report(16.0)
    assert (report.slots, report.running, report.starting, report.gave_up) == (2, 2, 0, True)
    assert report.why.startswith("5 refusals in a row to start actors: over quota") and report.retry_seconds == 10
    assert place.turn(25.9) == 0
    assert place.turn(26.0) == 1, "one tries again"
    assert place.core.report(26.0).retry_seconds == 20
    place.room = 4
    assert place.turn(46.0) == 1
    assert place.turn(105.9) == 0
    assert place.turn(106.0) == 1, "the first has run for a minute"
    assert (place.core.report(106.0).slots, place.core.report(106.0).why) == (4, "")


def test_refusals_with_an_acceptance_between_them_are_no_reason_to_give_up() -> None:
    place = Limited(room=0)
    for now in (1.0, 2.0, 4.0, 8.0):
        place.turn(now)
    place.room = 4
    assert place.turn(16.0) == 4
    place.room = 0
    place.alive.clear()
    place.turn(17.0)
    assert place.turn(100.0) == 4
    assert not place.core.gave_up


def test_where_actors_cannot_be_seen_a_failed_start_is_not_taken_for_a_refusal() -> None:
    place = Limited(room=0, unsure=True)
    for now in range(0, 1000, 50):
        place.turn(float(now))
    assert not place.core.gave_up, "told that fewer are wanted, its program would end those that it has started"
