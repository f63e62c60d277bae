"""The shell of the actor and of the evaluator, in this process; their learner is in a thread."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

import actor.daemon
import actor.evaluator.daemon
import actor.failure_rule
from common.errors import EXIT_DONE, EXIT_SIGTERM, ConfigurationError, EnvironmentMissingError, UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.wire import membership
from common.wire.messages import Evaluation, Goodbye, Gradient, Heartbeat, Hello, Pull, Refused, Stop, Weights
from tests.helpers.beside import beside, interrupt
from tests.helpers.daemons import BROKEN, free_address
from tests.helpers.run import settings_of
from tests.helpers.scripted import PATIENCE_MS, Learner

RUN: dict[str, Callable[..., int]] = {"actor": actor.daemon.run, "evaluator": actor.evaluator.daemon.run}
REPORT: dict[str, Any] = {"actor": Gradient, "evaluator": Evaluation}
"""What is sent when something has been played."""
SMALL = ("network.kind='dense'", "network.hidden=[4]", "environment.num_envs=2", "evaluation.episodes=2")
COUNTER = (*SMALL, "environment.id='broken_environments:Counter-v0'")
Work = Callable[..., int]


@pytest.fixture(params=RUN)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def work(role: str, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch) -> Work:
    """Runs the daemon while `script(learner)` runs beside it; its exit code."""
    monkeypatch.syspath_prepend(str(BROKEN))

    def one(script: Callable[[Learner], None], *assignments: str) -> int:
        learner = Learner(context, settings_of(*(assignments or COUNTER)))
        where, modules = LearnerEndpoint(learner.address), ["broken_environments"]
        return beside(lambda: script(learner), lambda: RUN[role](where, modules=modules))

    return one


def begin(learner: Learner, role: str, **changed: Any) -> Hello:
    """Welcomes it, and gives it something to play."""
    hello = learner.welcome(**changed)
    if role == "evaluator":
        learner.hear(Pull)
        learner.say(Weights(version=1, epoch=changed.get("epoch", 1)), learner.weights(0.0))
    return hello


def test_it_gives_memory_back_that_it_has_no_need_of(work: Work, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr("actor.shell.Heap.look", lambda _, now: looks.append(now))

    def script(learner: Learner) -> None:
        begin(learner, role, credit=0)
        learner.hear(REPORT[role])
        before = len(looks)
        while len(looks) < before + 10:  # also while it plays
            learner.hear(Heartbeat)
        learner.say(Stop(reason="enough", final=True))

    assert work(script) == EXIT_DONE
    assert looks == sorted(looks)


def test_a_signal_ends_it_with_a_goodbye(work: Work, role: str) -> None:
    def script(learner: Learner) -> None:
        begin(learner, role)
        learner.hear(REPORT[role])
        interrupt()
        assert learner.hear(Goodbye)[0].reason == "stopped by a signal"

    assert work(script) == EXIT_SIGTERM


def test_a_signal_that_the_environment_handles_does_not_keep_it_awake(
    work: Work, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: handled.append(number))
    readable: list[bool] = []
    drain = Signals.drain

    def noted(signals: Signals) -> None:
        drain(signals)
        readable.append(bool(select.select([signals], [], [], 0)[0]))

    def script(learner: Learner) -> None:
        learner.hear(Hello)
        os.kill(os.getpid(), signal.SIGUSR1)
        learner.hear(Hello)  # it waits, and asks again
        learner.say(Stop(reason="enough", final=True))

    monkeypatch.setattr(membership, "HELLO_SECONDS", 0.01)
    monkeypatch.setattr(Signals, "drain", noted)
    try:
        assert work(script) == EXIT_DONE
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled == [signal.SIGUSR1]
    assert readable and not any(readable)


def test_the_service_manager_is_told_whether_it_plays_or_waits(
    work: Work, role: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where: list[Address] = []

    def script(learner: Learner) -> None:
        where.append(learner.address)
        for epoch in (1, 2):
            begin(learner, role, epoch=epoch)
            learner.hear(REPORT[role])
            learner.say(Stop(reason="back soon, or not", final=epoch == 2))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert work(script) == EXIT_DONE
        manager.setblocking(False)
        told = [manager.recv(4096).decode() for _ in range(6)]
    waiting = f"STATUS=waiting for the learner at {where[0]}"
    what = {"actor": "playing {} x2 in run a-run", "evaluator": "evaluating {} in run a-run"}[role]
    doing = "STATUS=" + what.format("broken_environments:Counter-v0")
    assert told == [waiting, f"READY=1\n{doing}", doing, waiting, doing, "STOPPING=1\nSTATUS=back soon, or not"]


def test_one_that_is_refused_plays_when_the_learner_has_been_upgraded(
    work: Work, role: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the protocol, by settings that it does not know, and by another network."""
    monkeypatch.setattr(membership, "HELLO_SECONDS", 0.01)

    def script(learner: Learner) -> None:
        first, _ = learner.hear(Hello)
        learner.say(Refused(code="protocol", reason="protocol 1 is not 2"))
        learner.welcome(settings={"environment": {"colour": "red"}}, a3cd="9.1")
        assert "(a3cd 9.1) cannot be read here" in learner.hear(Goodbye)[0].reason
        learner.welcome(model="another")
        assert "is not the learner's (another)" in learner.hear(Goodbye)[0].reason
        again = begin(learner, role)
        assert again.incarnation == first.incarnation
        learner.hear(REPORT[role])
        learner.say(Stop(reason="enough", final=True))

    with caplog.at_level(logging.WARNING, role):
        assert work(script) == EXIT_DONE
    said = [record.getMessage() for record in caplog.records]
    assert len(set(said)) == len(said) <= 3, "each is said once"
    assert all(line.endswith("; trying again, ever more slowly") for line in said)


def test_it_waits_no_longer_than_it_is_told_to(role: str) -> None:
    with pytest.raises(UnavailableError, match=f"no learner let this {role} in for 0.2 s: no answer"):
        RUN[role](LearnerEndpoint(free_address()), wait=0.2)


def test_it_waits_for_a_learner_and_says_so(
    role: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(membership, "FIRST_NOTICE_SECONDS", 0.05)
    address = free_address()

    def stop_when_said() -> None:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while "no answer" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        interrupt()

    with caplog.at_level(logging.WARNING, role):
        assert beside(stop_when_said, lambda: RUN[role](LearnerEndpoint(address))) == EXIT_SIGTERM
    assert f"no answer from the learner at {address} for" in caplog.text


@pytest.mark.parametrize(
    "named",
    [
        "network.kind='antigravity:Small'",
        "environment.id='antigravity:Small'",
        "environment.wrappers=['antigravity:Small']",
    ],
)
def test_a_module_is_imported_only_where_it_may(work: Work, named: str) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(settings=msgspec.to_builtins(settings_of(named)))
        learner.hear(Goodbye)

    with pytest.raises(
        ConfigurationError, match=r"for antigravity:Small: .* with --allow-module antigravity if it may"
    ):
        work(script)
    assert "antigravity" not in sys.modules


def test_an_environment_that_is_not_here_is_named(work: Work) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(settings=msgspec.to_builtins(settings_of(*SMALL, "environment.id='NotHere-v0'")))
        learner.hear(Goodbye)

    with pytest.raises(EnvironmentMissingError, match="NotHere-v0 does not exist"):
        work(script)


def test_an_environment_of_the_old_interface_ends_it_at_once_and_for_good(work: Work, role: str) -> None:
    def script(learner: Learner) -> None:
        begin(learner, role)
        assert "it has the interface of Gym before 0.26" in learner.hear(Goodbye)[0].reason

    with pytest.raises(EnvironmentMissingError, match="not enough values to unpack"):
        work(script, *SMALL, "environment.id='broken_environments:OldStep-v0'")


@pytest.mark.parametrize(("name", "option"), [("NanReward", "length=1"), ("RaisesMidEpisode", "every=1")])
def test_an_environment_that_always_fails_is_given_up(
    work: Work, role: str, monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    monkeypatch.setattr(actor.failure_rule, "FAILING_SECONDS", 0.0)

    def script(learner: Learner) -> None:
        begin(learner, role)
        assert "gave up after 10 failures in a row" in learner.hear(Goodbye)[0].reason

    with pytest.raises(UnavailableError, match=r"10 failures in a row: .*(no finite number|the emulator is gone)"):
        work(script, *SMALL, f"environment.id='broken_environments:{name}-v0'", f"environment.options.{option}")
