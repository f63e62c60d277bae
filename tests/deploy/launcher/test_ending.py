from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.wire.messages import FleetReport, Goodbye, Hello, Stop
from deploy.backends.background_loop import Report
from deploy.backends.base import Observation, Requests
from deploy.backends.command import CommandBackend
from deploy.launcher import ending
from deploy.launcher.core import LauncherCore
from deploy.launcher.ending import ABANDON_SECONDS, LEAVE_SECONDS, TOOLS_SECONDS, Ending
from deploy.launcher.reconciler import GONE_SECONDS, GRACE_SECONDS, LOOK_AGAIN_SECONDS, Slot
from tests.helpers.bench import Bench
from tests.helpers.launching import Actors, Learner, lasting, launch
from tests.helpers.programs import lines, program
from tests.helpers.waiting import until

BOTH = Observation(frozenset({0, 1}))
ENOUGH = GRACE_SECONDS + ABANDON_SECONDS
"""Time in which actors that were asked are gone."""


def test_actors_that_were_asked_are_waited_for_until_they_were_killed_and_tools_longer() -> None:
    one = Ending()
    assert not one.over(1e9, unasked=False), "it has not begun"
    one.begin(100.0, LEAVE_SECONDS)
    one.begin(101.0, 0.0)
    one.begin(500.0, 0.0)  # it has begun already
    assert not one.late(101.0 + ENOUGH - 0.01)
    assert one.late(101.0 + ENOUGH) and one.over(101.0 + ENOUGH, unasked=False)
    assert not one.over(101.0 + TOOLS_SECONDS - 0.01, unasked=True)
    assert one.over(101.0 + TOOLS_SECONDS, unasked=True)
    assert (one.rest(101.0), one.rest(1000.0)) == (TOOLS_SECONDS, 0.0)


def running(*hosts: str, outlives: bool = True) -> Bench:
    """Two actors on each host."""
    bench = Bench(slots=2, hosts=hosts, outlives=outlives)
    bench.order(2 * len(hosts))
    return bench


def ended(core: LauncherCore, now: float) -> bool:
    return core.finished(now) and not core.unasked


def test_a_launcher_does_not_end_before_a_slow_tool_has_asked_its_actors_to_stop() -> None:
    for patience, end in ((0.0, None), (LEAVE_SECONDS, Stop(reason="goal", final=True))):
        bench = running("h2")
        if end is None:
            bench.core.stop(bench.now)
        else:
            bench.core.handle(bench.now, end)
        bench.now += patience
        assert bench.core.due(bench.now) == {0}
        bench.now += 30  # the tool answers only now
        assert not bench.core.finished(bench.now)
        assert bench.core.late_seconds(bench.now) == TOOLS_SECONDS - 30
        assert bench.observe(0) == ["stop 0", "stop 1"]
        assert ended(bench.core, bench.now)


def test_actors_that_end_with_their_launcher_are_not_waited_for_longer_than_it_takes_to_kill_them() -> None:
    bench = running("", outlives=False)
    bench.core.stop(bench.now)
    assert not bench.core.finished(bench.now + ENOUGH - 0.01)
    assert ended(bench.core, bench.now + ENOUGH), "though no tool has answered"
    assert bench.core.late_seconds(bench.now + ENOUGH) == 0.0


def test_where_tools_answer_at_once_nothing_takes_longer() -> None:
    bench = running("h2")
    bench.core.stop(bench.now)
    assert bench.tick() == ["stop 0", "stop 1"]
    bench.after(GRACE_SECONDS)
    assert not bench.core.finished(bench.now)
    bench.now += ABANDON_SECONDS
    assert ended(bench.core, bench.now)
    assert bench.core.late_seconds(bench.now) == 0.0


def test_a_host_that_could_not_be_observed_is_tried_again_in_the_end() -> None:
    bench = running("h2", "h3")
    bench.problems = {1: "no route"}
    bench.observe(1)
    bench.now += LOOK_AGAIN_SECONDS
    assert bench.core.due(bench.now) == set(), "until then its own pause does"
    bench.core.stop(bench.now)
    assert bench.core.due(bench.now) == {0, 1}
    assert bench.core.due(bench.now) == set(), "both are on their way"
    bench.observe()
    assert 1 not in bench.core.due(bench.now), "not again and again at once"
    assert 1 in bench.core.due(bench.now + LOOK_AGAIN_SECONDS)
    bench.now += 20
    bench.problems = {}
    assert bench.observe(1) == ["stop 0 on 1", "stop 1 on 1"]
    assert ended(bench.core, bench.now)


def test_one_that_gives_up_says_where_actors_play_on() -> None:
    bench = running("h2", "h3")
    bench.problems = {1: "no route"}
    bench.observe(1)
    bench.core.stop(bench.now)
    bench.after(ENOUGH)
    assert not bench.core.finished(bench.now)
    bench.now += TOOLS_SECONDS - ENOUGH
    assert bench.core.finished(bench.now)
    assert bench.core.unasked == {1: 2}
    bench.core.detach()
    assert bench.core.unasked == {}, "they are to play on"


def test_a_request_that_failed_has_asked_nobody() -> None:
    bench = running("h2")
    bench.core.stop(bench.now)
    for undone in (True, False):
        assert bench.core.unasked == {0: 2}
        (place,) = bench.core.due(bench.now)
        bench.core.observe(bench.now, place, Report(BOTH))
        bench.core.observe(bench.now, place, Report(BOTH, undone=undone))
        assert bench.core.finished(bench.now + ENOUGH) is not undone
        bench.now += ENOUGH
    assert bench.core.unasked == {}


def test_a_place_that_was_never_seen_is_looked_at_before_the_end() -> None:
    bench = Bench(slots=2, hosts=["h2", "h3"], seen=False, outlives=True)
    bench.observe(0)
    bench.alive = {Slot(1, 1)}
    bench.core.stop(bench.now)
    assert bench.core.due(bench.now + 30) == set(), "the first look is on its way"
    assert bench.core.unasked == {1: None} and not bench.core.finished(bench.now + ENOUGH)
    assert bench.observe(1) == ["stop 1 on 1"]
    assert bench.core.unasked == {}


@pytest.mark.parametrize("lost_for", [1, GONE_SECONDS], ids=["a moment", "so long that it counts as empty"])
def test_a_place_that_cannot_be_seen_when_the_end_begins_may_have_actors(lost_for: float) -> None:
    bench = running("h2", "h3")
    bench.problems = {1: "no route"}
    bench.now += lost_for
    bench.observe(1)
    bench.core.handle(bench.now, Stop(reason="goal", final=True))
    bench.after(LEAVE_SECONDS)
    assert bench.core.unasked == {1: 2 if lost_for == 1 else None}
    bench.after(ENOUGH)
    assert not bench.core.finished(bench.now)
    assert bench.core.finished(bench.now + TOOLS_SECONDS), "it gives up"
    bench.now += LOOK_AGAIN_SECONDS
    assert bench.core.due(bench.now) >= {1}
    bench.problems = {}
    assert bench.observe(1) == ["stop 0 on 1", "stop 1 on 1"]
    assert ended(bench.core, bench.now)


def test_a_place_whose_actors_are_gone_is_not_waited_for_when_it_is_lost_in_the_end() -> None:
    bench = running("h2", "h3")
    bench.core.stop(bench.now)
    bench.tick()
    bench.alive.clear()
    bench.observe()
    bench.problems = {1: "no route"}
    bench.observe(1)
    assert ended(bench.core, bench.now)


def test_where_actors_end_with_the_launcher_none_are_left_in_what_was_not_seen() -> None:
    bench = Bench(seen=False)
    bench.core.stop(bench.now)
    assert ended(bench.core, bench.now)


def test_a_backend_that_is_not_sure_is_asked_for_none_until_that_is_done() -> None:
    core = LauncherCore([2], outlives=True)
    unsure = Report(Observation(unsure=True), undone=True)
    core.observe(1.0, 0, unsure)
    core.stop(2.0)
    assert core.due(2.0) == set() and core.due(3.0) == {0}, "not at once after what failed"
    assert core.observe(3.5, 0, unsure).requests == Requests(planned=0), "though there was no order"
    assert core.unasked == {0: None} and not core.finished(3.5 + ENOUGH)
    assert core.due(5.5) == {0}
    core.observe(6.0, 0, Report(Observation()))
    assert core.due(100.0) == set() and ended(core, 6.0)


@pytest.fixture
def learner(nothing_left_behind: None) -> Iterator[Learner]:
    one = Learner()
    yield one
    one.close()


@pytest.mark.slow
def test_ctrl_c_waits_for_a_slow_tool_to_stop_actors_that_would_play_on(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(ending, "ABANDON_SECONDS", 0.0)
    said = "actors cannot be asked to stop yet"
    actors = lasting()

    def slow() -> Observation:
        if interrupted.is_set():
            until(lambda: said in caplog.text, "an end that waits")
        return Actors.observe(actors)

    interrupted = threading.Event()
    monkeypatch.setattr(actors, "observe", slow)

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.running == 2)
        interrupted.set()
        os.kill(os.getpid(), signal.SIGINT)
        learner.hear(Goodbye)

    assert launch(script, learner.address, actors) == 130
    assert {call.partition(" ")[0] for call in actors.calls} <= {"stop", "kill", "close"}
    assert {call.partition(" ")[2] for call in actors.calls} == {"1", "2", ""}
    assert caplog.text.count(said) == 1 and "play on" not in caplog.text


@pytest.mark.slow
def test_one_that_cannot_ask_actors_to_stop_says_so(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "TOOLS_SECONDS", 0.0)
    actors = lasting()

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.running == 2)
        actors.problem = "ssh: no route"
        learner.hear(FleetReport, lambda report: report.why == "ssh: no route")
        os.kill(os.getpid(), signal.SIGINT)
        learner.hear(Goodbye)

    assert launch(script, learner.address, actors) == 130
    assert "these actors were not asked to stop, and play on actors=2 why='ssh: no route'" in caplog.text


@pytest.mark.slow
def test_one_that_could_not_even_look_names_the_place(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "TOOLS_SECONDS", 0.0)
    actors = lasting()
    actors.problem = "ssh: no route"

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.why == "ssh: no route")
        os.kill(os.getpid(), signal.SIGINT)
        learner.hear(Goodbye)

    assert launch(script, learner.address, actors) == 130
    said = "gave up: if there are actors, they were not asked to stop, and play on actors=unknown why='ssh: no route'"
    assert said in caplog.text


GROWS_ONLY = """
import sys
from pathlib import Path
with Path(sys.argv[0]).with_name("counts").open("a") as file:
    file.write(sys.argv[1] + "\\n")
if sys.argv[1] != "0":
    sys.exit("one machine was created, the next was refused")
"""


@pytest.mark.slow
@pytest.mark.parametrize("orders", [True, False], ids=["a failed order", "no order"])
def test_a_program_is_told_zero_before_the_end_though_it_never_succeeded(
    learner: Learner, tmp_path: Path, orders: bool
) -> None:
    scale = program(tmp_path, "scale", GROWS_ONLY)

    def script() -> None:
        if orders:
            learner.welcome(actors=2)
            learner.hear(FleetReport, lambda report: "the next was refused" in report.why)
        else:
            learner.hear(Hello)
        os.kill(os.getpid(), signal.SIGINT)
        learner.hear(Goodbye)

    assert launch(script, learner.address, CommandBackend([str(scale), "{count}"], "tcp://gpu:5555")) == 130
    assert lines(tmp_path / "counts")[-1:] == ["0"]
