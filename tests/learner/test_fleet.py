from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.settings.sections import MAX_ACTORS
from common.wire.messages import FleetOrder, FleetReport, Goodbye, Heartbeat, Refused, SiteReport, Welcome
from learner.core import LearnerCore
from learner.effects import Effect
from learner.fleet import Fleet, share
from learner.meters import Rate
from learner.peer import Peer
from learner.run_stats import Counters
from tests.helpers.run import attend, gradient_of, hello_of, learner_of, logged, run_of, sent, settings_of

FIXED = ("scaling.policy=fixed", "scaling.minimum=6", "scaling.maximum=6")
GROWING = (
    *("scaling.policy=episode-duration", "scaling.minimum=2", "scaling.maximum=10", "scaling.episodes_between=3"),
    "scaling.unit=seconds",
)


def playing(core: LearnerCore, begin: int, seconds: int, *, busy: float = 0.1) -> list[Effect]:
    """Two actors of the launcher `l` send a gradient four times a second; everything that was to be done."""
    effects: list[Effect] = []
    for quarter in range(4 * begin, 4 * (begin + seconds)):
        now = quarter / 4
        for name in (b"x", b"y"):
            if core.run.peers.get(name) is None:
                core.handle(now, name, hello_of(name.decode(), launcher="l"), None)
            header = gradient_of(quarter + 1, core.run.stats.counters.version, episodes=[(1.0, 20, 30.0)])
            core.handle(now, name, header, b"body")
        core.run.stats.busy.working(now, busy / 4)
        core.flush(now)
        effects += core.tick(now)
    return effects


@pytest.mark.parametrize(
    ("wanted", "slots", "orders"),
    [(5, [4, 4], [3, 2]), (9, [2, 8], [2, 7]), (9, [2, 3], [2, 3]), (0, [4], [0]), (3, [], []), (2, [0, 5], [0, 2])],
)
def test_share_is_as_even_as_the_slots_allow(wanted: int, slots: list[int], orders: list[int]) -> None:
    assert share(wanted, slots) == orders


@given(wanted=st.integers(0, 60), slots=st.lists(st.integers(0, 30), max_size=6))
def test_share_gives_out_all_there_is_room_for_and_no_launcher_has_two_more_than_one_with_room(
    wanted: int, slots: list[int]
) -> None:
    orders = share(wanted, slots)
    assert sum(orders) == min(wanted, sum(slots))
    assert all(0 <= order <= limit for order, limit in zip(orders, slots, strict=True))
    with_room = [order for order, limit in zip(orders, slots, strict=True) if order < limit]
    assert not with_room or max(orders) <= min(with_room) + 1


def test_slots_without_end_cost_no_time() -> None:
    assert share(4096, [2**63 - 1] * 2) == [2048, 2048]


def test_orders_go_to_all_launchers_when_one_joins_or_leaves() -> None:
    core, _ = learner_of(*FIXED)
    effects = core.handle(0.0, b"first", hello_of("first", "launcher", slots=8), None)
    assert [order.actors for order in sent(effects, FleetOrder, b"first")] == [6]
    effects = core.handle(0.0, b"second", hello_of("second", "launcher", slots=2), None)
    assert [order.actors for order in sent(effects, FleetOrder, b"first")] == [4]
    assert [order.actors for order in sent(effects, FleetOrder, b"second")] == [2]
    effects = core.handle(1.0, b"first", Goodbye(reason="stopped"), None)
    assert [order.actors for order in sent(effects, FleetOrder)] == [2]
    effects = core.handle(1.0, b"third", hello_of("third", "launcher", slots=8), None)
    attend(core, 1.0, 25.0)
    core.handle(25.0, b"third", FleetReport(slots=8, running=4, starting=0, failed=0), None)
    effects = attend(core, 26.0, 31.0)
    assert [order.actors for order in sent(effects, FleetOrder, b"third")] == [6], "the second fell silent"


def test_a_launcher_that_died_without_a_word_is_replaced_at_once_and_no_actor_is_stopped() -> None:
    core, _ = learner_of("scaling.policy=fixed", "scaling.minimum=6", "scaling.maximum=6")
    core.handle(0.0, b"l1", hello_of("lab", "launcher", slots=4), None)
    core.handle(0.0, b"other", hello_of("other", "launcher", slots=4), None)
    effects = core.handle(1.0, b"l2", hello_of("lab", "launcher", slots=4, incarnation="successor"), None)
    assert logged(effects) == [
        "info: launcher lab was started again: the one before is removed",
        "info: launcher lab on lab joined",
    ]
    assert [order.actors for order in sent(effects, FleetOrder, b"l2")] == [3]
    assert [order.actors for order in sent(effects, FleetOrder, b"other")] == [3], "never more in between"
    assert sorted(fleet.name for fleet in core.run.status(1.0).launchers) == ["lab", "other"]


def test_of_two_launchers_of_one_name_the_newer_stays_and_the_older_is_told_until_it_has_gone() -> None:
    core, _ = learner_of()
    older, newer = hello_of("lab", "launcher", host="h1"), hello_of("lab", "launcher", host="h2", incarnation="newer")
    core.handle(0.0, b"older", older, None)
    core.handle(1.0, b"newer", newer, None)
    (refused,) = sent(core.handle(2.0, b"older", Heartbeat(), None), Refused)
    assert refused.code == "unknown"
    for now in (2.0, 3.0):
        effects = core.handle(now, b"older", older, None)
        (refused,) = sent(effects, Refused, b"older")
        assert (refused.code, refused.reason) == (
            "replaced",
            "launcher lab on h2 came later; --name gives another name",
        )
        assert logged(effects) == ["warning: launcher lab on h1 is not let in: one of its name on h2 came later"]
        assert not sent(effects, Welcome)
    assert [fleet.host for fleet in core.run.status(3.0).launchers] == ["h2"]
    assert core.run.status(3.0).warnings == ["launcher lab on h1 is not let in: one of its name on h2 came later"]
    core.handle(4.0, b"newer", Goodbye(reason="stopped"), None)
    assert sent(core.handle(5.0, b"older", older, None), Welcome, b"older")


def silent_crew(state: str, *, removed_after: int = 30) -> LearnerCore:
    """Two launchers, and an actor of the first that is removed after so many seconds of silence, as one by hand is."""
    core, _ = learner_of(*FIXED, "exchange.expiry_seconds=30")
    for name in ("lab", "attic"):
        core.handle(0.0, name.encode(), hello_of(name, "launcher", slots=6), None)
    core.handle(0.0, b"x", hello_of("lab-0", launcher="lab"), None)
    core.handle(0.0, b"x", Heartbeat(state=state), None)
    core.handle(0.0, b"by-hand", hello_of("by-hand"), None)
    core.handle(0.0, b"by-hand", Heartbeat(state=state), None)
    removed = []
    for now in range(removed_after + 2):
        for name in (b"lab", b"attic"):
            core.handle(now, name, Heartbeat(), None)
        assert not removed, "too soon"
        removed += logged(core.tick(now))
    assert len(removed) == 2
    return core


def named(core: LearnerCore, now: float, launcher: bytes) -> list[dict[str, float]]:
    """With the answer to a report that needs no other."""
    peer = core.run.peers.get(launcher)
    assert peer is not None
    answer = core.handle(now, launcher, FleetReport(slots=6, running=peer.ordered, starting=0, failed=0), None)
    return [order.silent for order in sent(answer, FleetOrder, launcher)]


def test_an_actor_that_hangs_is_named_to_its_launcher_until_one_of_its_name_joins() -> None:
    core = silent_crew("working")
    assert named(core, 59.0, b"lab") == [], "a long step is no end"
    assert named(core, 60.0, b"lab") == [{"lab-0": 60.0}]
    assert named(core, 61.0, b"attic") == []
    core.handle(62.0, b"lab2", hello_of("lab", "launcher", slots=6, incarnation="successor"), None)
    assert named(core, 63.0, b"lab2") == [{"lab-0": 63.0}]
    core.handle(64.0, b"x2", hello_of("lab-0", launcher="lab", incarnation="successor"), None)
    assert named(core, 65.0, b"lab2") == []


def test_a_name_that_resembles_that_of_an_actor_in_the_run_ends_nobody() -> None:
    """Another key may be called so, and fall silent: the launcher would end the actor that plays."""
    core, _ = learner_of(*FIXED, "exchange.expiry_seconds=30")
    core.handle(0.0, b"lab", hello_of("lab", "launcher", slots=6), None)
    core.handle(0.0, b"x", hello_of("lab/lab-0", launcher="lab"), None)
    core.handle(0.0, b"y", hello_of("other/1/lab-0", launcher="lab"), None)
    core.handle(0.0, b"y", Heartbeat(state="working"), None)
    for now in range(61):
        for name in (b"lab", b"x"):
            core.handle(now, name, Heartbeat(), None)
        core.tick(now)
    assert core.run.peers.get(b"y") is None and core.run.peers.get(b"x") is not None
    assert named(core, 61.0, b"lab") == []
    core.handle(62.0, b"x", Goodbye(reason="it has left"), None)
    assert named(core, 63.0, b"lab") == [{"other/1/lab-0": 63.0}]


def test_one_that_never_got_to_work_is_given_more_time() -> None:
    core = silent_crew("", removed_after=300)
    assert named(core, 301.0, b"lab") == [{"lab-0": 301.0}]


def test_a_launcher_with_the_name_of_its_key_is_told_of_units_that_do_not_know_it() -> None:
    core, _ = learner_of(*FIXED, "exchange.expiry_seconds=30")
    core.handle(0.0, b"x", hello_of("site/box-0", launcher="box"), None)
    core.handle(0.0, b"x", Heartbeat(state="working"), None)
    attend(core, 0.0, 60.0)
    for name, silent in (("site/box", [{"site/box-0": 60.0}]), ("site/bigbox", []), ("site", [])):
        core.handle(60.0, name.encode(), hello_of(name, "launcher", slots=6), None)
        assert named(core, 60.0, name.encode()) == silent


def test_one_whose_host_is_gone_is_not_named_for_ever() -> None:
    core = silent_crew("working")
    assert named(core, 659.0, b"lab") == [{"lab-0": 659.0}]
    assert named(core, 660.0, b"lab") == []


def test_three_launchers_share_by_the_room_that_each_has_now() -> None:
    core, _ = learner_of(*FIXED)
    for name in ("a", "b", "c"):
        effects = core.handle(0.0, name.encode(), hello_of(name, "launcher", slots=4), None)

    def orders() -> list[int]:
        return [order.actors for name in (b"a", b"b", b"c") for order in sent(effects, FleetOrder, name)]

    assert orders() == [2, 2, 2]
    effects = core.handle(1.0, b"b", FleetReport(slots=1, running=0, starting=1, failed=0, why="h2: no route"), None)
    assert orders() == [3, 1, 2]
    effects = core.handle(2.0, b"b", FleetReport(slots=1, running=1, starting=0, failed=0), None)
    assert orders() == []
    effects = core.handle(3.0, b"c", FleetReport(slots=0, running=0, starting=0, failed=5, gave_up=True), None)
    assert orders() == [4, 1, 0]
    effects = core.handle(4.0, b"b", FleetReport(slots=4, running=1, starting=0, failed=0), None)
    assert orders() == [3, 3, 0]
    effects = core.handle(5.0, b"a", Goodbye(reason="stopped"), None)
    assert orders() == [4, 0]


def test_an_order_that_was_lost_is_given_again_when_a_report_shows_it() -> None:
    core, _ = learner_of(*FIXED)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    assert core.handle(1.0, b"l", FleetReport(slots=8, running=4, starting=2, failed=0), None) == []
    effects = core.handle(2.0, b"l", FleetReport(slots=8, running=2, starting=0, failed=0), None)
    assert [order.actors for order in sent(effects, FleetOrder, b"l")] == [6]


def test_a_launcher_that_gives_up_is_told_of_once() -> None:
    core, _ = learner_of(*FIXED)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    gave_up = FleetReport(slots=8, running=0, starting=0, failed=5, gave_up=True, exit_code=78, why="no such game")
    lines = [logged(core.handle(1.0, b"l", gave_up, None)) for _ in range(3)]
    assert lines == [["error: launcher l cannot start actors, and tries ever more slowly: no such game"], [], []]
    status = core.run.status(2.0)
    assert status.warnings == ["launcher l cannot start actors, and tries ever more slowly: no such game"]
    assert (status.launchers[0].gave_up, status.launchers[0].exit_code) == (True, 78)


def test_a_scaling_decision_is_ordered_and_logged_with_its_numbers() -> None:
    core, _ = learner_of(*GROWING)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    effects = playing(core, 0, 5)
    assert [order.actors for order in sent(effects, FleetOrder, b"l")] == [3]
    (line,) = logged(effects)
    assert line.startswith("info: scaling: mean episode 30.0 s > 20 s") and "2 -> 3 actors" in line
    status = core.run.status(5.0)
    assert status.actors_wanted == 3 and "30.0 s" in status.why
    assert core.run.stats.counters.last_addition > 0
    assert logged(playing(core, 5, 6)) == [], "the third is not here yet: no new decision, no line"


def test_a_busy_learner_holds_additions_and_says_so_once() -> None:
    core, _ = learner_of(*GROWING)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    effects = playing(core, 0, 10, busy=1.0)
    assert sent(effects, FleetOrder) == []
    (line,) = logged(effects)
    assert "held at 2 actors: learner busy 100% > 80%" in line


def test_actors_that_were_started_by_hand_are_measured_with_the_others_and_not_ordered() -> None:
    core, _ = learner_of(*GROWING)
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    core.handle(0.0, b"h", hello_of("h"), None)
    core.handle(0.0, b"h", gradient_of(), b"body")
    effects = playing(core, 0, 5)
    assert [order.actors for order in sent(effects, FleetOrder, b"l")] == [3]


def test_a_resumed_run_orders_as_many_as_it_had() -> None:
    core, _ = learner_of(*GROWING, counters=Counters(wanted=7, episodes=50, last_addition=50))
    effects = core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    assert [order.actors for order in sent(effects, FleetOrder)] == [7]


def test_thresholds_that_no_episode_can_pass_are_told_of_once() -> None:
    core, _ = learner_of(
        *GROWING[:-1], "environment.num_envs=1", "limits.window=5", "scaling.thresholds_relative=[50.0]",
        "scaling.additions=[1]", longest=500,
    )  # fmt: skip
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=8), None)
    lines = logged(playing(core, 0, 10))
    (line,) = [line for line in lines if line.startswith("warning")]
    assert "scaling.thresholds_relative = 50 is never passed: an episode has at most 500 steps" in line
    assert core.run.status(10.0).warnings == [line.removeprefix("warning: ")]


def reports(core: LearnerCore, begin: int, end: int, *names: str) -> list[dict[str, float]]:
    """What the launcher `lab` is told of actors that hang, while it reports every other second that these run."""
    told = []
    for now in range(begin, end + 1, 2):
        peer = core.run.peers.get(b"lab")
        assert peer is not None
        report = FleetReport(slots=6, running=peer.ordered, starting=0, failed=0, names=list(names))
        told += [order.silent for order in sent(core.handle(now, b"lab", report, None), FleetOrder, b"lab")]
    return told


def test_an_actor_that_hangs_before_it_joins_is_named_to_its_launcher() -> None:
    core, _ = learner_of(*FIXED, "exchange.expiry_seconds=30")
    core.handle(0.0, b"lab", hello_of("site/lab", "launcher", slots=6), None)
    core.handle(0.0, b"x", hello_of("site/lab-0", launcher="lab"), None)
    assert reports(core, 0, 298, "lab-0", "lab-1") == []
    assert reports(core, 300, 302, "lab-0", "lab-1") == [{"lab-1": 300.0}, {"lab-1": 302.0}]
    core.handle(303.0, b"y", hello_of("site/lab-1", launcher="lab"), None)
    assert reports(core, 304, 310, "lab-0", "lab-1") == []


def test_one_that_hung_while_the_learner_was_restarted_is_named_and_one_that_is_kept_out_is_not() -> None:
    core, _ = learner_of(*FIXED, "exchange.expiry_seconds=30", epoch=2)
    core.handle(0.0, b"lab", hello_of("lab", "launcher", slots=6), None)
    core.run.peers.quarantine.add(0.0, "address ", "lab-1", "three gradients in a row could not be used")
    for begin in range(0, 300, 60):
        knock = core.handle(begin, b"y", hello_of("lab-1", launcher="lab", codecs=["of tomorrow"]), None)
        assert sent(knock, Refused)
        assert reports(core, begin, begin + 58, "lab-0", "lab-1") == []
    assert reports(core, 300, 300, "lab-0", "lab-1") == [{"lab-0": 300.0}]


def test_actors_behind_a_relay_count_for_scaling_and_do_not_hang() -> None:
    core, _ = learner_of(*FIXED, "exchange.kind=gradients", "exchange.expiry_seconds=30")
    core.handle(0.0, b"l", hello_of("lab", "launcher", slots=6), None)
    core.handle(0.0, b"r", hello_of("site", "relay"), None)
    named_ = [(number, f"lab-{number}", 10.0) for number in range(6)]

    def at(now: float, actors: int) -> list[FleetOrder]:
        core.handle(now, b"r", SiteReport(actors=actors, by_hand=0, named=named_), None)
        report = FleetReport(slots=6, running=6, starting=0, failed=0, names=[f"lab-{number}" for number in range(6)])
        return sent(core.handle(now, b"l", report, None), FleetOrder)

    assert [order for now in range(0, 700, 10) for order in at(float(now), 6)] == [], "all six are there"
    assert [order for now in range(700, 1400, 10) for order in at(float(now), 300)] == [], "or may be"
    named_.pop()
    hang = [order.silent for now in range(1400, 2100, 10) for order in at(float(now), 5)]
    assert hang and set(hang[-1]) == {"lab-5"}
    assert core.run.peers.actors == 5


def test_silent_actors_of_a_launcher_that_never_comes_do_not_fill_the_memory() -> None:
    """Peers choose their names, and nobody is there to be told of them."""
    fleet = Fleet(run_of(settings_of()))
    for number in range(2 * MAX_ACTORS):
        fleet.fell_silent(Peer(hello_of(f"a-{number}", launcher="gone"), 0.0, Rate(1.0, 0.0)))
    assert len(fleet._silent) == MAX_ACTORS
