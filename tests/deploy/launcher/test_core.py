from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.wire.frames import pack, unpack
from common.wire.messages import MAX_ACTORS_NAMED, FleetOrder, FleetReport, Refused, Stop, Welcome
from deploy.backends.background_loop import Report
from deploy.backends.base import Observation, Requests
from deploy.launcher.core import LauncherCore
from deploy.launcher.reconciler import Slot
from tests.helpers.bench import Bench


def test_nothing_before_an_order() -> None:
    bench = Bench()
    assert bench.tick() == []
    assert bench.report == FleetReport(slots=4, running=0, starting=0, failed=0)


def test_prestarted_actors_start_before_the_order_and_count_towards_it() -> None:
    bench = Bench(prestart=2, seen=False)
    assert bench.observe() == ["start 0", "start 1"]
    assert bench.order(3) == ["start 2"]
    assert Bench(slots=1, prestart=9, seen=False).observe() == ["start 0"]


def test_an_order_beyond_the_slots_is_clamped_and_said() -> None:
    bench = Bench(slots=2)
    assert bench.order(5) == ["start 0", "start 1"]
    assert bench.report.why == "5 actors ordered, 2 slots here"
    assert bench.order(1) == ["stop 1"]
    assert bench.report.why == ""


def test_fewer_stops_the_newest_first() -> None:
    bench = Bench()
    bench.order(1)
    bench.now += 5
    bench.order(3)
    bench.ended(0)
    bench.after(0.5)  # slot 0 is the newest now
    assert bench.order(2) == ["stop 0"]
    assert bench.order(1) == ["stop 2"]


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
    assert bench.tick() == ["start 1"]
    assert bench.report.failed == 0


def test_exit_zero_is_no_failure_but_the_actor_comes_back() -> None:
    bench = Bench(slots=1)
    bench.order(1)
    for _ in range(20):
        assert not bench.ended(0, exit_code=0)
        assert bench.after(30) == ["start 0"]
    assert (bench.report.failed, bench.report.gave_up) == (0, False)


def test_reports_when_something_changed_and_every_heartbeat() -> None:
    bench = Bench()
    bench.welcome()
    bench.reports.clear()
    bench.after(1.9)
    assert bench.reports == []
    bench.after(0.1)
    assert [report.running for report in bench.reports] == [0]
    bench.order(2)
    assert [(report.running, report.starting) for report in bench.reports] == [(0, 0), (0, 2), (2, 0)]
    bench.after(1.9)
    assert len(bench.reports) == 3
    bench.after(0.1)
    assert [report.running for report in bench.reports] == [0, 0, 2, 2]


def test_the_deadline_is_the_next_report_or_request() -> None:
    bench = Bench()
    bench.core.handle(bench.now, Welcome(run="r", epoch=1, heartbeat_seconds=5.0, expiry_seconds=50.0))
    bench.core.tick(bench.now)
    assert bench.core.deadline == bench.now + 5
    bench.order(1)
    bench.order(0)
    assert bench.core.deadline == bench.now + 3, "it is killed"
    bench.core.detach()
    assert bench.core.deadline == bench.now + 5


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
    assert bench.after(3) == ["stop 1", "stop 2"]
    assert not bench.ended(1, 143)
    assert bench.order(3) == []
    assert bench.after(3) == ["kill 2"]
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
    assert bench.tick() == ["stop 0"]
    bench.core.stop(bench.now)
    assert bench.tick() == []


def test_one_that_survives_a_kill_is_not_waited_for() -> None:
    bench = Bench()
    bench.order(1)
    bench.core.stop(bench.now)
    assert bench.tick() == ["stop 0"]
    assert bench.after(3) == ["kill 0"]
    assert not bench.core.finished(bench.now)
    assert bench.core.finished(bench.now + 1)


def test_a_stop_during_back_off_is_the_end() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0)
    bench.core.stop(bench.now)
    assert bench.after(100) == []
    assert bench.core.finished(bench.now)


def test_actors_found_are_kept_until_the_first_order_says_how_many() -> None:
    bench = Bench()
    assert bench.found(3, 1) == []
    assert bench.after(100) == []
    assert (bench.core.wanted, bench.report.running) == (2, 2)
    assert bench.order(3) == ["start 0"]
    assert bench.order(1) == ["stop 0", "stop 3"]


def test_too_many_found_are_stopped_with_the_first_order() -> None:
    bench = Bench()
    bench.found(0, 1, 2)
    assert bench.order(1) == ["stop 1", "stop 2"]


def test_one_found_after_the_order_counts_at_once_and_the_surplus_leaves() -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 1
    assert bench.found(3) == ["stop 1"]


def test_one_found_in_the_end_is_stopped() -> None:
    bench = Bench()
    bench.core.handle(bench.now, Stop(reason="goal", final=True))
    assert bench.found(2) == ["stop 2"]


def test_nothing_is_started_where_nothing_can_be_observed() -> None:
    bench = Bench(slots=2, hosts=["h2", "h3"], seen=False)
    assert bench.order(2) == []
    assert (bench.report.slots, bench.report.starting) == (4, 0), "nobody knows yet"
    bench.problems = {0: "no route"}
    assert bench.observe(0) == []
    assert (bench.report.slots, bench.report.why) == (4, "h2: no route")
    assert bench.observe(1) == ["start 0 on 1", "start 1 on 1"]
    assert (bench.report.slots, bench.report.running) == (2, 2)
    bench.problems = {0: "no route", 1: "no route"}
    assert bench.observe() == []
    assert (bench.report.slots, bench.report.running) == (2, 2), "both play on unseen"
    bench.problems = {}
    bench.ended(0, place=1)
    assert bench.after(0.5) == ["start 0 on 1"]


def test_what_does_not_work_yet_is_starting_and_has_not_lived() -> None:
    bench = Bench(slots=2)
    bench.starting = {Slot(0), Slot(1)}
    bench.order(2)
    assert (bench.report.running, bench.report.starting) == (0, 2)
    bench.now += 100
    bench.starting = {Slot(1)}
    bench.observe()
    assert (bench.report.running, bench.report.starting) == (1, 1)
    assert bench.order(1) == ["stop 1"], "the one that still waits"


def test_a_backend_is_told_how_many_are_planned_once_there_is_an_order() -> None:
    core = LauncherCore([3], prestart=1)
    report = Report(Observation())
    assert core.observe(1.0, 0, report).requests == Requests(start=frozenset({0}))
    core.handle(1.0, FleetOrder(actors=0, why="test"))
    assert core.observe(1.0, 0, report).requests == Requests(planned=0)


def test_a_launcher_that_detaches_leaves_its_actors_alone() -> None:
    bench = Bench()
    bench.order(2)
    bench.core.detach()
    assert bench.after(100) == []
    assert bench.core.finished(bench.now)
    assert bench.core.wanted == 2


def test_why_a_request_failed_is_reported_until_it_is_made() -> None:
    core = LauncherCore([1], prestart=1)
    core.observe(0.0, 0, Report(Observation()))
    core.observe(0.0, 0, Report(Observation(), problem="no such unit"))
    core.observe(0.4, 0, Report(Observation()))
    assert core.report(0.5).why == "no such unit"
    assert core.observe(0.5, 0, Report(Observation())).requests.start == {0}
    assert core.report(0.5).why == "no such unit"
    core.observe(0.5, 0, Report(Observation(frozenset({0}))))
    assert core.report(0.5).why == ""


def silent(bench: Bench, name: str, seconds: float, actors: int = 2) -> list[Slot]:
    """The learner says that this actor fell silent; the slots that are replaced for it."""
    return bench.core.handle(bench.now, FleetOrder(actors=actors, why="test", silent={name: seconds}))


def test_an_actor_that_hangs_is_asked_killed_and_started_again() -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 40
    assert silent(bench, "lab-1", 30.0) == [Slot(1)]
    assert (bench.report.running, bench.report.starting) == (1, 1)
    assert bench.tick() == ["stop 1"]
    assert silent(bench, "lab-1", 32.0) == [], "it is known"
    assert bench.after(2.9) == []
    assert bench.after(0.1) == ["kill 1"]
    assert bench.ended(1, 137)
    assert bench.after(0.5) == ["start 1"]
    assert silent(bench, "lab-1", 45.0) == [], "its successor was not there then"
    assert bench.after(100) == []


def test_one_that_was_found_may_have_been_silent_for_ever_so_long() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0)
    bench.found(0)
    assert silent(bench, "lab-0", 30.0, actors=1) == [Slot(0)]


def test_actors_at_work_are_reported_by_name() -> None:
    bench = Bench(slots=2, hosts=["h2", "h3"])
    bench.starting = {Slot(0)}
    bench.order(3)
    assert sorted(bench.report.names) == ["lab-h2-1", "lab-h3-0"]
    bench.now += 400
    assert silent(bench, "lab-h3-0", 300.0, actors=3) == [Slot(0, 1)]
    assert bench.report.names == ["lab-h2-1"], "it is on its way out"


def test_which_actors_are_started_again_is_reported_by_name_though_not_of_ever_so_many() -> None:
    bench = Bench(slots=MAX_ACTORS_NAMED, hosts=["h2", "h3"])
    bench.order(2 * MAX_ACTORS_NAMED)
    assert bench.ended(0, place=1) and bench.after(1.0) == ["start 0 on 1"]
    assert bench.ended(0, place=1) and bench.report.restarts == {"lab-h3-0": 2}
    failures = sum(bench.ended(slot) for slot in range(MAX_ACTORS_NAMED))
    assert (failures, len(bench.report.restarts)) == (MAX_ACTORS_NAMED, MAX_ACTORS_NAMED)
    assert bench.report.restarts["lab-h3-0"] == 2 and unpack(pack(bench.report)) == bench.report


def test_no_report_names_more_actors_than_a_message_holds() -> None:
    bench = Bench(slots=300)
    bench.order(300)
    assert len(bench.report.names) == MAX_ACTORS_NAMED
    assert unpack(pack(bench.report)) == bench.report


def test_only_what_runs_here_and_is_wanted_is_replaced() -> None:
    bench = Bench(slots=1, hosts=["h2", "h3"])
    bench.order(2)
    bench.now += 40
    for name in ("lab-7", "lab", "", "other-0", "lab-0x", "lab-h2-0/"):
        assert silent(bench, name, 30.0) == []
    assert silent(bench, "the-key-of-h3/here/lab-h3-0", 30.0) == [Slot(0, 1)], "keys stand before names"
    assert bench.order(0) == ["stop 0", "stop 0 on 1"]
    assert silent(bench, "lab-h2-0", 30.0, actors=0) == []


def test_one_that_hangs_and_is_not_wanted_any_more_is_ended_all_the_same() -> None:
    bench = Bench()
    bench.order(1)
    bench.now += 40
    silent(bench, "lab-0", 30.0, actors=1)
    assert bench.order(0) == ["stop 0"]
    assert bench.after(3) == ["kill 0"]
    bench.ended(0, 137)
    assert bench.after(100) == []
    assert bench.order(1) == ["start 0"]


REPLACED = Refused(code="replaced", reason="launcher lab on h2 came later")


def test_one_whose_name_another_has_leaves_actors_alone_that_the_other_finds() -> None:
    bench = Bench(outlives=True)
    bench.order(2)
    bench.core.handle(bench.now, REPLACED)
    assert bench.found(3) == []
    assert bench.after(100) == []
    bench.core.stop(bench.now)
    assert bench.after(100) == [], "a Ctrl-C is not for the actors of another"
    assert bench.core.finished(bench.now)


def test_one_whose_name_another_has_stops_its_own_children_and_starts_again_when_the_other_has_gone() -> None:
    bench = Bench(slots=2)
    bench.order(2)
    bench.core.handle(bench.now, REPLACED)
    assert bench.tick() == ["stop 0", "stop 1"]
    bench.ended(0, 143)
    bench.ended(1, 143)
    assert bench.after(100) == []
    bench.welcome()
    assert bench.order(2) == ["start 0", "start 1"]


def test_one_whose_name_another_had_takes_its_actors_over_again() -> None:
    bench = Bench(slots=2, outlives=True)
    bench.order(2)
    bench.core.handle(bench.now, REPLACED)
    bench.alive.clear()  # the other stopped them
    assert bench.observe() == []
    bench.welcome()
    bench.order(2)
    assert len(bench.alive) == 2


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
        elif kind == "end" and Slot(int(number)) in bench.alive:
            bench.ended(int(number), exit_code)
            bench.tick()
        elif kind == "welcome":
            bench.welcome(int(number))
        assert bench.report.running == len(bench.alive)
        assert bench.core.due(bench.now) == set(), "nothing is left undone"
    for _ in range(100):
        for slot in bench.told & bench.alive:
            bench.ended(slot.number, 143)
        bench.after(30.0)
    assert len(bench.alive) == bench.core.wanted or bench.core.gave_up
    assert not bench.report.starting
