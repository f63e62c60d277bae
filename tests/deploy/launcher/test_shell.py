from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from common.errors import ConfigurationError
from common.host.security.access import LearnerEndpoint
from common.wire import membership
from common.wire.messages import AnyMessage, FleetOrder, FleetReport, Goodbye, Heartbeat, Hello, Refused, Stop, Welcome
from deploy.backends import background_loop
from deploy.backends.base import Ended, Place
from deploy.backends.process import ProcessBackend
from deploy.launcher import ending, reconciler, shell
from tests.helpers.launching import Actors, Learner, lasting, launch
from tests.helpers.programs import lines
from tests.helpers.run import learner_of, sent
from tests.helpers.waiting import until

pytestmark = [pytest.mark.usefixtures("nothing_left_behind"), pytest.mark.slow]

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"


@pytest.fixture
def learner(nothing_left_behind: None) -> Iterator[Learner]:
    one = Learner()
    yield one
    one.close()


def test_from_hello_to_the_end_of_the_run(learner: Learner) -> None:
    actors = Actors()

    def script() -> None:
        hello = learner.hear(Hello)
        assert (hello.role, hello.name, hello.slots) == ("launcher", "lab", 4)
        learner.say(Welcome(run="r", epoch=1, heartbeat_seconds=0.05, expiry_seconds=30.0))
        assert learner.hear(FleetReport) == FleetReport(slots=4, running=0, starting=0, failed=0)
        learner.say(FleetOrder(actors=2, why="test"))
        learner.hear(FleetReport, lambda report: report.running == 2)
        learner.hear(Heartbeat, lambda beat: beat.state == "2 actors")
        learner.say(FleetOrder(actors=1, why="test"))
        learner.hear(FleetReport, lambda report: report.running == 1)
        learner.say(Stop(reason="goal", final=True))
        learner.hear(Goodbye)
        actors.ended.append(Ended(0, 0))

    assert launch(script, learner.address, actors) == 0
    assert actors.calls == ["start 0", "start 1", "stop 1", "close"]


def test_reports_and_ends_of_actors_wake_it(learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here comes of looking now and then."""
    monkeypatch.setattr(shell, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(ProcessBackend, "interval", 3600.0)
    started = tmp_path / "started"
    script_of_actor = f"print('x', file=open({str(started)!r}, 'a'))"
    backend = ProcessBackend(lambda _: [sys.executable, "-c", script_of_actor], str)

    def script() -> None:
        learner.hear(Hello)
        learner.say(Welcome(run="r", epoch=1, heartbeat_seconds=600.0, expiry_seconds=3000.0))
        learner.say(FleetOrder(actors=1, why="test"))
        until(lambda: started.exists() and len(lines(started)) > 2, "an actor that ends is started again")
        learner.say(Stop(reason="goal", final=True))
        learner.hear(Goodbye)

    assert launch(script, learner.address, backend, slots=1) == 0


STOPPED = """
import os, signal, sys
from pathlib import Path
with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
if len(Path(sys.argv[1]).read_text().split()) == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
"""


def test_a_child_that_stops_before_it_says_hello_is_ended_and_replaced(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real launcher and child, and the rules of a real learner, for whom a second is a minute."""
    monkeypatch.setattr(reconciler, "GRACE_SECONDS", 0.2)
    started = tmp_path / "started"
    backend = ProcessBackend(lambda _: [sys.executable, "-c", STOPPED, str(started)], str)
    core, _ = learner_of("scaling.policy=fixed", "scaling.minimum=1", "scaling.maximum=1", "exchange.expiry_seconds=12")
    begun = time.monotonic()

    def handle(message: AnyMessage) -> list[FleetOrder]:
        return sent(core.handle(60 * (time.monotonic() - begun), b"lab", message, None), FleetOrder)

    def script() -> None:
        handle(learner.hear(Hello))
        learner.say(Welcome(run="r", epoch=1, heartbeat_seconds=0.05, expiry_seconds=12.0))
        learner.say(FleetOrder(actors=1, why="test"))
        while len(lines(started)) < 2:
            for order in handle(learner.hear(FleetReport)):
                silent = {name: seconds / 60 for name, seconds in order.silent.items()}
                learner.say(msgspec.structs.replace(order, silent=silent))
        learner.say(Stop(reason="goal", final=True))
        learner.hear(Goodbye)

    assert launch(script, learner.address, backend, slots=1) == 0
    first, second = map(int, lines(started))
    assert first != second and not psutil.pid_exists(first)


@pytest.mark.parametrize(("actors", "names"), [("lab", ["lab-0"]), ("", [])])
def test_only_names_that_it_knows_are_reported(learner: Learner, actors: str, names: list[str]) -> None:
    """The learner would take an actor for one that hangs if it never heard of it under the name reported."""

    def script() -> None:
        learner.welcome(actors=1)
        assert learner.hear(FleetReport, lambda report: report.running == 1).names == names
        os.kill(os.getpid(), signal.SIGTERM)

    assert launch(script, learner.address, Actors(), actors=actors) == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_actors_and_says_goodbye(learner: Learner, number: signal.Signals, code: int) -> None:
    actors = Actors()

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.running == 2)
        os.kill(os.getpid(), number)
        assert learner.hear(Goodbye).reason == f"stopped by {number.name}"

    assert launch(script, learner.address, actors) == code
    assert actors.calls == ["start 0", "start 1", "stop 0", "stop 1", "close"]


def test_one_that_is_refused_waits_until_it_is_not(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HELLO_SECONDS", 0.01)
    actors = Actors()

    def script() -> None:
        for _ in range(3):
            learner.hear(Hello)
            learner.say(Refused(code="protocol", reason="another a3cd"))
        learner.welcome(actors=1)
        learner.hear(FleetReport, lambda report: report.running == 1)
        learner.say(Stop(reason="goal", final=True))
        learner.hear(Goodbye)
        actors.ended.append(Ended(0, 0))

    assert launch(script, learner.address, actors, prestart=1) == 0
    assert actors.calls == ["start 0", "close"], "its actor was let alone"
    assert caplog.text.count("the learner refused this launcher: another a3cd; trying again, ever more slowly") == 1


def test_it_waits_no_longer_than_it_is_told_to(learner: Learner, caplog: pytest.LogCaptureFixture) -> None:
    actors = Actors()

    def script() -> None:
        learner.hear(Hello)
        learner.say(Refused(code="protocol", reason="another a3cd"))

    assert launch(script, learner.address, actors, prestart=1, wait=3.0) == 75
    assert actors.calls == ["start 0", "stop 0", "close"]
    assert "no learner let this launcher in for 3 s: the learner refused this launcher: another a3cd" in caplog.text


def test_a_name_that_cannot_be_closes_the_backend_too(learner: Learner) -> None:
    actors = Actors()
    with pytest.raises(ConfigurationError, match="name"):
        shell.run(LearnerEndpoint(learner.address), [Place(actors, 1)], name="x" * 1000)
    assert actors.calls == ["close"]


def test_a_learner_that_comes_late(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "FIRST_NOTICE_SECONDS", 0.05)
    address, actors, told = learner.address, Actors(), threading.Event()
    learner.close()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if f"no learner at {address}" in record.getMessage():
                told.set()

    def script() -> None:
        assert told.wait(10)
        late = Learner(address.port)
        late.welcome(actors=2)
        late.hear(FleetReport, lambda report: report.running == 2)
        late.say(Stop(reason="goal", final=True))
        late.hear(Goodbye)
        late.close()
        actors.ended += [Ended(0, 0), Ended(1, 0)]

    ear = Ear()
    logging.getLogger(shell.__name__).addHandler(ear)
    try:
        assert launch(script, address, actors, prestart=1) == 0
    finally:
        logging.getLogger(shell.__name__).removeHandler(ear)
    assert actors.calls == ["start 0", "start 1", "close"]


def test_a_pause_keeps_the_actors_and_joins_again(learner: Learner) -> None:
    actors = Actors()

    def script() -> None:
        learner.welcome(actors=1)
        learner.hear(FleetReport, lambda report: report.running == 1)
        learner.say(Stop(reason="restart", final=False))
        learner.welcome(actors=1)
        learner.hear(FleetReport, lambda report: report.running == 1)
        os.kill(os.getpid(), signal.SIGTERM)

    assert launch(script, learner.address, actors) == 143
    assert actors.calls == ["start 0", "stop 0", "close"]


def test_a_launcher_that_gave_up_says_so_and_stays(learner: Learner, caplog: pytest.LogCaptureFixture) -> None:
    actors = Actors()

    def script() -> None:
        learner.welcome(actors=1)
        learner.hear(FleetReport, lambda report: report.running == 1)
        actors.ended.append(Ended(0, 78, "no environment 'x'"))
        report = learner.hear(FleetReport, lambda report: report.gave_up)
        assert (report.exit_code, report.failed, report.running) == (78, 1, 0)
        learner.hear(FleetReport)
        learner.say(Stop(reason="nothing runs", final=True))

    assert launch(script, learner.address, actors) == 0
    assert actors.calls == ["start 0", "close"]
    assert next(r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING) == (
        "an actor ended slot=0 exit_code=78"
    )
    assert caplog.text.count("no actor can run; one tries again in 60 s") == 1


def test_real_children_that_do_not_listen(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for module in (ending, reconciler):
        monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.running == 2)
        os.kill(os.getpid(), signal.SIGINT)
        learner.hear(Goodbye)

    assert launch(script, learner.address, ProcessBackend(lambda _: [sys.executable, "-c", DEAF], str)) == 130


@pytest.mark.parametrize(("number", "calls"), [(signal.SIGTERM, []), (signal.SIGINT, ["stop 1", "stop 2"])])
def test_actors_that_outlive_are_adopted_and_only_ctrl_c_stops_them(
    learner: Learner, number: signal.Signals, calls: list[str]
) -> None:
    actors = lasting()

    def script() -> None:
        learner.welcome(actors=3)
        learner.hear(FleetReport, lambda report: report.running == 3)
        learner.say(FleetOrder(actors=2, why="test"))
        learner.hear(FleetReport, lambda report: report.running == 2)
        os.kill(os.getpid(), number)
        learner.hear(Goodbye)

    assert launch(script, learner.address, actors) == 128 + number
    assert actors.calls == ["start 0", "stop 0", *calls, "close"]


def test_one_that_waited_too_long_leaves_them_too(learner: Learner) -> None:
    actors = lasting()

    def script() -> None:
        learner.hear(Hello)

    assert launch(script, learner.address, actors, wait=3.0) == 75
    assert actors.calls == ["close"]


def test_one_of_whose_name_another_came_later_waits_until_that_has_gone(
    learner: Learner, caplog: pytest.LogCaptureFixture
) -> None:
    actors = lasting()

    def script() -> None:
        learner.welcome(actors=2)
        learner.hear(FleetReport, lambda report: report.running == 2)
        learner.say(Refused(code="unknown", reason="say hello first"))
        for _ in range(2):
            learner.hear(Hello)
            learner.say(Refused(code="replaced", reason="launcher lab on h2 came later"))
        learner.welcome(actors=3)
        learner.hear(FleetReport, lambda report: report.running == 3)
        os.kill(os.getpid(), signal.SIGTERM)

    assert launch(script, learner.address, actors) == 143
    assert actors.calls == ["start 0", "close"]
    assert caplog.text.count("this launcher leaves the actors alone, until the other has gone") == 1


def test_a_problem_of_the_backend_is_reported_and_logged_once(
    learner: Learner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_loop, "backoff", lambda _: 0.01)
    actors = Actors()
    actors.problem = "ssh: Permission denied (publickey)."

    def script() -> None:
        learner.welcome(actors=2)
        report = learner.hear(FleetReport, lambda report: report.slots == 0)
        assert (report.why, report.starting) == ("ssh: Permission denied (publickey).", 0)
        learner.hear(FleetReport)
        actors.problem = ""
        learner.hear(FleetReport, lambda report: report.running == 2 and report.why == "")
        os.kill(os.getpid(), signal.SIGTERM)

    assert launch(script, learner.address, actors) == 143
    assert caplog.text.count("Permission denied") == 1
    assert actors.calls[:2] == ["start 0", "start 1"]


def test_systemd_is_told(learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000000")  # the one at the start is all, or another might come last
    # The default argument of Notifier is os.environ itself, which monkeypatch changes in place.

    def script() -> None:
        learner.welcome(actors=0, heartbeat_seconds=2.0)  # each heartbeat brings a status, and nobody reads them yet
        learner.hear(FleetReport)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        assert launch(script, learner.address, Actors()) == 143
        manager.setblocking(False)
        heard = []
        try:
            while True:
                heard.append(manager.recv(4096).decode())
        except BlockingIOError:
            pass
    finally:
        manager.close()
    assert heard[0].startswith("READY=1\n")
    assert "WATCHDOG=1" in heard
    assert heard[-1] == "STOPPING=1\nSTATUS=stopped by SIGTERM"
