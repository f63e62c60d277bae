from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from common.wire.messages import Refused
from deploy.backends.base import Observation
from deploy.launcher.reconciler import Reconciler, Slot
from tests.helpers.bench import Bench


def test_back_off_doubles_to_half_a_minute() -> None:
    bench = Bench(slots=2)
    bench.order(2)
    bench.now += 60  # the other one runs on: no reason for giving up
    for delay in (0.5, 1, 2, 4, 8, 16, 30, 30):
        assert bench.ended(0)
        assert bench.after(delay * 0.99) == []
        assert bench.report.starting == 1
        assert bench.after(delay * 0.01) == ["start 0"]
        bench.now += 40
    assert bench.report.failed == 8
    assert not bench.report.gave_up


def test_a_minute_of_running_resets_the_back_off() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    for lived, delay in ((59.9, 0.5), (59.9, 1.0), (60.0, 0.5), (0.0, 1.0)):
        bench.now += lived
        bench.ended(0)
        assert bench.after(delay * 0.99) == []
        assert bench.after(delay * 0.01) == ["start 0"]


def test_an_actor_in_back_off_is_not_hurried_by_orders() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    bench.ended(0)
    assert bench.order(0) == []
    assert bench.order(1) == []
    assert bench.after(0.5) == ["start 0"]


def test_one_that_does_not_leave_is_killed_and_again_if_that_failed() -> None:
    bench = Bench()
    bench.order(1)
    assert bench.order(0) == ["stop 0"]
    assert bench.after(2.9) == []
    assert bench.after(0.1) == ["kill 0"]
    assert bench.after(9.9) == []
    assert bench.after(0.1) == ["kill 0"]


def test_the_deadline_is_when_there_is_something_to_request() -> None:
    one = planned(1, 1)
    assert one.deadline <= 0.0, "a start"
    assert one.due(0.0) == {0}
    assert one.deadline == math.inf, "its observation is on its way"
    one.observe(0.0, 0, Observation())
    one.requests(0.0, 0)
    one.observe(1.0, 0, Observation(frozenset({0})))
    assert one.deadline == math.inf, "it runs"
    one.dismiss(5.0, Slot(0))
    assert one.deadline == 5.0
    one.lose(2.0, 0)
    assert one.deadline == math.inf


def planned(count: int, *slots: int) -> Reconciler:
    """Places with these slots, observed once."""
    one = Reconciler(slots)
    for place in range(len(slots)):
        one.observe(0.0, place, Observation())
    one.set_plan(0.0, count, one.slots)
    return one


def seen(*slots: int) -> Observation:
    return Observation(frozenset(slots))


def test_few_actors_are_on_many_places() -> None:
    one = planned(3, 2, 1, 4)
    assert one.plan == {Slot(0, 0), Slot(0, 1), Slot(0, 2)}
    assert one.due(0.0) == {0, 1, 2}
    assert one.due(0.0) == set(), "their observations are on the way"


def test_a_start_whose_answer_was_lost_is_not_made_again() -> None:
    one = planned(1, 2)
    assert one.requests(1.0, 0).start == {0}
    one.lose(2.0, 0)
    assert (one.taken, one.due(100.0)) == ({Slot(0)}, set())
    assert one.observe(101.0, 0, seen(0)) == set()
    assert one.requests(101.0, 0).slots == set()


def test_a_start_that_failed_is_made_again_later_each_time() -> None:
    one = planned(1, 1)
    now = 0.0
    for delay in (0.5, 1.0, 2.0):
        assert one.requests(now, 0).start == {0}
        one.observe(now, 0, seen())
        assert one.requests(now + delay * 0.99, 0).slots == set()
        now += delay


def test_what_was_not_requested_is_found_and_not_started() -> None:
    one = planned(2, 3)
    assert one.observe(1.0, 0, seen(1, 2)) == {Slot(1), Slot(2)}
    assert one.requests(1.0, 0).start == {0}
    assert one.observe(1.0, 0, seen(0, 1, 2)) == set()


def test_a_place_that_is_not_observed_keeps_its_actors_for_ten_minutes() -> None:
    one = planned(2, 1, 1)
    for place in (0, 1):
        one.requests(0.0, place)
        one.observe(0.0, place, seen(0))
    one.lose(599.0, 1)
    assert one.observed == {Slot(0, 0), Slot(0, 1)}
    assert one.ready == {0}
    one.lose(600.0, 1)
    assert one.observed == {Slot(0, 0)}
    assert one.observe(900.0, 1, seen(0)) == {Slot(0, 1)}, "it was there after all"


def test_a_restarted_launcher_starts_nothing_before_it_has_looked_everywhere() -> None:
    bench = Bench(slots=4, hosts=["h2", "h3", "h4"], seen=False, outlives=True)
    bench.alive = {Slot(number, place) for number in (0, 1) for place in (0, 1)}
    assert bench.order(4) == []
    assert bench.observe(0) == []
    assert bench.ended(1) and bench.after(60) == [], "its successor waits, too"
    assert bench.observe(1) == []
    bench.problems = {2: "no route"}
    assert bench.observe(2) == [], "nobody answers there"
    assert bench.tick() == ["start 2"]
    assert bench.after(100) == []


def test_found_actors_stay_and_those_that_were_started_meanwhile_go() -> None:
    bench = Bench(slots=4, hosts=["h2", "h3"], seen=False, outlives=True)
    bench.problems = {0: "no route"}
    bench.alive |= {Slot(2, 0), Slot(3, 0)}
    bench.order(2)
    bench.observe(0)
    assert bench.observe(1) == ["start 0 on 1", "start 1 on 1"]
    bench.now += 300
    bench.problems = {}
    assert bench.observe(0) == []
    assert bench.tick() == ["stop 0 on 1", "stop 1 on 1"]


REPLACED = Refused(code="replaced", reason="launcher lab on h2 came later")


def test_actors_that_another_launcher_added_go_on_when_this_one_takes_over_again() -> None:
    bench = Bench(slots=8, outlives=True)
    bench.order(2)
    bench.core.handle(bench.now, REPLACED)
    assert bench.found(2, 3, 4) == []
    assert bench.after(10) == []
    assert bench.welcome() == []
    assert bench.after(10) == [], "no order has come yet"
    assert (bench.core.wanted, bench.report.running) == (5, 5)
    assert bench.order(5) == []
    assert bench.after(100) == []
    assert bench.order(6) == ["start 5"]


def test_an_order_that_comes_before_the_other_launchers_actors_are_seen_starts_none_beside_them() -> None:
    bench = Bench(slots=8, outlives=True)
    bench.order(2)
    bench.core.handle(bench.now, REPLACED)
    bench.alive |= {Slot(5), Slot(6), Slot(7)}
    bench.welcome()
    assert bench.order(5) == []
    assert bench.after(100) == []


def test_what_another_launcher_stopped_is_not_started_before_an_order() -> None:
    bench = Bench(outlives=True)
    bench.order(3)
    bench.core.handle(bench.now, REPLACED)
    assert not bench.ended(1, exit_code=0)
    assert bench.welcome() == []
    assert bench.after(100) == []
    assert len(bench.order(3)) == 1


def test_what_was_to_end_before_another_launcher_came_goes_on_with_its_successor() -> None:
    bench = Bench(outlives=True)
    bench.order(3)
    assert bench.order(2) == ["stop 2"]
    bench.core.handle(bench.now, REPLACED)
    bench.after(100)  # the actor in slot 2 is another launcher's now
    bench.welcome()
    assert bench.order(3) == []
    assert bench.after(100) == []


def test_all_that_is_there_is_adopted_as_if_nothing_had_been_decided() -> None:
    one = planned(2, 3)
    one.requests(0.0, 0)
    one.observe(0.0, 0, seen(0, 1, 2))
    one.dismiss(0.0, Slot(2))
    assert one.replace(50.0, Slot(1), silent_for=40.0)
    assert one.requests(50.0, 0).slots == {1, 2}
    one.adopt()
    assert (one.plan, one.silent) == ({Slot(0), Slot(1), Slot(2)}, set())
    assert one.requests(100.0, 0).slots == set()
    one.dismiss(100.0, Slot(2))
    assert one.requests(100.0, 0).stop == {2}, "as any other"


class Backend:
    """Starts actors, or loses the request, or cannot be seen."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.starts = 0

    def turn(self, one: Reconciler, now: float, fate: str) -> None:
        requests = one.requests(now, 0)
        assert not requests.start & self.alive, "doubled"
        if fate != "request lost":
            self.alive = (self.alive | requests.start) - requests.stop - requests.kill
        if fate == "unseen":
            one.lose(now, 0)
        else:
            one.observe(now, 0, seen(*self.alive))


fates = st.sampled_from(["", "", "request lost", "unseen"])


@given(st.lists(st.tuples(st.integers(0, 4), fates, st.floats(0, 50)), max_size=40))
def test_whatever_is_lost_there_are_as_many_actors_as_planned_in_the_end(script: list[tuple[int, str, float]]) -> None:
    one, backend, now = planned(0, 4), Backend(), 0.0
    for wanted, fate, seconds in [*script, *[(2, "", 60.0)] * 4]:
        now += seconds
        one.set_plan(now, wanted, [slot for slot in one.slots if slot.place in one.ready])
        if one.ready:
            backend.turn(one, now, fate)
        else:
            one.observe(now, 0, seen(*backend.alive))
    assert len(backend.alive) == 2
    assert one.observed == one.plan == {Slot(number) for number in backend.alive}
