"""The actor's shell, in this process; its learner is in a thread."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

import actor.failure_rule
from actor.daemon import run
from actor.players.gradients import GradientPlayer
from common.errors import ConfigurationError, EnvironmentMissingError, UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire import membership
from common.wire.messages import Acknowledgement, Act, Goodbye, Gradient, Heartbeat, Hello, Observe, Refused, Stop
from tests.helpers.daemons import BROKEN, free_address
from tests.helpers.run import settings_of
from tests.helpers.scripted import PATIENCE_MS, Learner, beside, interrupt

SMALL = ("network.kind='dense'", "network.hidden=[4]", "environment.num_envs=2", "algorithm.rollout_length=5")
COUNTER = (*SMALL, "environment.id='broken_environments:Counter-v0'")


@pytest.fixture
def act(context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs an actor while `script(learner)` runs beside it; the actor's exit code."""
    monkeypatch.syspath_prepend(str(BROKEN))

    def one(script: Callable[[Learner], None], *assignments: str) -> int:
        learner = Learner(context, settings_of(*(assignments or COUNTER)))
        where, modules = LearnerEndpoint(learner.address), ["broken_environments"]
        return beside(lambda: script(learner), lambda: run(where, name="a", launcher="here", modules=modules))

    return one


def test_it_takes_the_signals_before_the_slow_imports() -> None:
    """They take a second or more, in which a signal would else have its default effect."""
    script = "import sys, actor.daemon; print(sorted({'gymnasium', 'numpy', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_it_plays_until_the_run_is_over(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        hello = learner.welcome()
        assert (hello.role, hello.name, hello.launcher, hello.pid) == ("actor", "a", "here", os.getpid())
        assert {"torch", "gymnasium", "pyzmq", "python"} <= hello.versions.keys()
        assert "none" in hello.codecs
        gradient, body = learner.hear(Gradient)
        assert (gradient.sequence, gradient.version, gradient.steps, gradient.count) == (1, 0, 10, 1)
        assert (gradient.model, gradient.codec) == (learner.model, "none")
        assert np.isfinite(np.frombuffer(body or b"", np.float32)).sum() == learner.size
        while gradient.version < 3:  # until a broadcast has arrived
            learner.acknowledge(gradient, version=3)
            learner.publish(3)
            gradient, _ = learner.hear(Gradient)
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0


def test_it_gives_memory_back_that_it_has_no_need_of(act: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr("actor.daemon.Heap.look", lambda _, now: looks.append(now))

    def script(learner: Learner) -> None:
        learner.welcome()
        gradient, _ = learner.hear(Gradient)
        before = len(looks)
        while len(looks) < before + 10:  # also while it plays
            learner.acknowledge(gradient)
            gradient, _ = learner.hear(Gradient)
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0
    assert looks == sorted(looks)


def test_it_holds_environments_only_where_the_learner_acts(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(codec="")
        shown = [learner.hear(Observe)[0] for _ in range(2)]
        assert [(one.group, one.step, one.begins) for one in shown] == [(0, 1, True), (1, 1, True)]
        learner.say(Act(group=1, step=1), b"\0")
        stepped, _ = learner.hear(Observe, lambda one: one.step == 2)
        assert (stepped.group, stepped.begins, stepped.steps) == (1, False, 1)
        again, _ = learner.hear(Observe)
        assert again == shown[0], "unanswered, it is sent again"
        learner.say(Refused(code="unknown", reason="restarted"))
        learner.welcome(codec="", epoch=2)
        anew, _ = learner.hear(Observe, lambda one: one.epoch == 2)
        assert (anew.group, anew.step, anew.begins) == (0, 2, True)
        learner.say(Stop(reason="enough", final=True))

    assert act(script, *COUNTER, "exchange.kind='actions'") == 0


def test_a_signal_ends_it_with_a_goodbye(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome()
        learner.hear(Gradient)
        interrupt()
        assert learner.hear(Goodbye)[0].reason == "stopped by a signal"

    assert act(script) == 143


def test_it_outlives_its_learner_and_works_in_the_next_epoch(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        first = learner.welcome()
        learner.hear(Gradient)
        learner.say(Stop(reason="back soon", final=False))
        again = learner.welcome(epoch=2, version=7)
        assert again.incarnation == first.incarnation
        gradient, _ = learner.hear(Gradient, lambda gradient: gradient.epoch == 2)
        assert gradient.version == 7
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0


def test_the_service_manager_is_told_whether_it_plays_or_waits(
    act: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where: list[Address] = []

    def script(learner: Learner) -> None:
        where.append(learner.address)
        for epoch in (1, 2):
            learner.welcome(epoch=epoch)
            learner.hear(Gradient)
            learner.say(Stop(reason="back soon, or not", final=epoch == 2))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert act(script) == 0
        manager.setblocking(False)
        told = [manager.recv(4096).decode() for _ in range(6)]
    waiting = f"STATUS=waiting for the learner at {where[0]}"
    playing = "STATUS=playing broken_environments:Counter-v0 x2 in run a-run"
    assert told == [waiting, f"READY=1\n{playing}", playing, waiting, playing, "STOPPING=1\nSTATUS=back soon, or not"]


def test_a_gradient_that_nobody_answers_is_sent_again(act: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actor.core.RESEND_SECONDS", 0.05)

    def script(learner: Learner) -> None:
        learner.welcome()
        bodies = [bytes(learner.hear(Gradient, lambda gradient: gradient.sequence == 1)[1] or b"") for _ in range(3)]
        assert bodies[0] == bodies[1] == bodies[2] != b""
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0


def test_an_answer_reaches_the_player_and_a_reconnect_packs_nothing_anew(
    act: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[int, bool]] = []
    monkeypatch.setattr(GradientPlayer, "answered", lambda self, number, *, dropped: answers.append((number, dropped)))

    def script(learner: Learner) -> None:
        learner.welcome()
        gradient, body = learner.hear(Gradient)
        learner.say(Refused(code="unknown", reason="say hello first"))
        learner.welcome()
        again, same = learner.hear(Gradient)
        assert (again, bytes(same or b"")) == (gradient, bytes(body or b"x"))
        learner.say(Acknowledgement(sequence=1, verdict="stale", version=0, credit=1, actors=1))
        learner.acknowledge(learner.hear(Gradient)[0])
        learner.hear(Gradient)
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0
    assert answers == [(1, True), (2, False)]


def test_without_a_limit_on_credit_nothing_is_waited_for(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(credit=0)
        assert [learner.hear(Gradient)[0].sequence for _ in range(20)] == list(range(1, 21))
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0


def test_what_was_under_way_when_the_connection_broke_is_sent_again_at_once(
    act: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actor.core.RESEND_SECONDS", 1e6)

    def script(learner: Learner) -> None:
        first = learner.welcome()
        lost, body = learner.hear(Gradient)
        learner.cut()
        assert learner.welcome().incarnation == first.incarnation
        assert learner.hear(Gradient) == (lost, body)
        learner.say(Stop(reason="enough", final=True))

    assert act(script) == 0


def test_one_that_is_refused_plays_when_the_learner_has_been_upgraded(
    act: Callable[..., int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the protocol, by settings that it does not know, and by another network."""
    monkeypatch.setattr(membership, "HELLO_SECONDS", 0.01)

    def script(learner: Learner) -> None:
        first, _ = learner.hear(Hello)
        learner.say(Refused(code="protocol", reason="protocol 1 is not 2"))
        learner.welcome(settings={"environment": {"colour": "red"}}, a3cd="9.1")
        assert "(a3cd 9.1) cannot be read by this actor" in learner.hear(Goodbye)[0].reason
        learner.welcome(model="another")
        assert "is not the learner's (another)" in learner.hear(Goodbye)[0].reason
        again = learner.welcome()
        assert again.incarnation == first.incarnation
        gradient, _ = learner.hear(Gradient)
        assert gradient.sequence == 1
        learner.say(Stop(reason="enough", final=True))

    with caplog.at_level(logging.WARNING, "actor"):
        assert act(script) == 0
    said = [record.getMessage() for record in caplog.records]
    assert len(set(said)) == len(said) <= 3, "each is said once"
    assert all(line.endswith("; trying again, ever more slowly") for line in said)


@pytest.mark.parametrize("refused", [True, False])
def test_it_waits_no_longer_than_it_is_told_to(context: zmq.Context[zmq.Socket[bytes]], refused: bool) -> None:
    learner = Learner(context, settings_of(*COUNTER))

    def script() -> None:
        learner.hear(Hello)
        if refused:
            learner.say(Refused(code="protocol", reason="protocol 1 is not 2"))

    why = "protocol 1 is not 2" if refused else "no answer"
    with pytest.raises(UnavailableError, match=rf"no learner let this actor in for 0.5 s: .*{why}"):
        beside(script, lambda: run(LearnerEndpoint(learner.address), wait=0.5))


def test_a_networks_module_is_imported_only_where_it_may(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(settings=msgspec.to_builtins(settings_of("network.kind='antigravity:Small'")))
        learner.hear(Goodbye)

    with pytest.raises(
        ConfigurationError, match=r"for antigravity:Small: .* with --allow-module antigravity if it may"
    ):
        act(script)
    assert "antigravity" not in sys.modules


def test_an_environment_of_the_old_interface_ends_it_at_once_and_for_good(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        old = settings_of(*SMALL, "environment.id='broken_environments:OldStep-v0'")
        learner.welcome(settings=msgspec.to_builtins(old))
        assert "it has the interface of Gym before 0.26" in learner.hear(Goodbye)[0].reason

    with pytest.raises(EnvironmentMissingError, match="not enough values to unpack"):
        act(script)


def test_an_environment_that_is_not_here_is_named(act: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(settings=msgspec.to_builtins(settings_of(*SMALL, "environment.id='NotHere-v0'")))
        learner.hear(Goodbye)

    with pytest.raises(EnvironmentMissingError, match="NotHere-v0 does not exist"):
        act(script)


def test_an_environment_that_raises_now_and_then_is_played_on(
    act: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(credit=0)
        learner.hear(Heartbeat, lambda beat: "failed in step: RuntimeError: the emulator is gone" in str(beat))
        for _ in range(20):
            learner.hear(Gradient)
        learner.say(Stop(reason="enough", final=True))

    settings = (*SMALL, "environment.id='broken_environments:RaisesMidEpisode-v0'", "environment.options.every=7")
    with caplog.at_level(logging.WARNING, "actor"):
        assert act(script, *settings) == 0
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("name", "option"), [("NanReward", "length=1"), ("RaisesMidEpisode", "every=1")])
def test_an_environment_that_always_fails_is_given_up(
    act: Callable[..., int], monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    monkeypatch.setattr(actor.failure_rule, "FAILING_SECONDS", 0.0)

    def script(learner: Learner) -> None:
        learner.welcome()
        assert "gave up after 10 failures in a row" in learner.hear(Goodbye)[0].reason

    with pytest.raises(UnavailableError, match=r"10 failures in a row: .*(no finite number|the emulator is gone)"):
        act(script, *SMALL, f"environment.id='broken_environments:{name}-v0'", f"environment.options.{option}")


def test_it_waits_for_a_learner_and_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(membership, "FIRST_NOTICE_SECONDS", 0.05)
    address = free_address()

    def stop_when_said() -> None:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while "no answer" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        interrupt()

    with caplog.at_level(logging.WARNING, "actor"):
        assert beside(stop_when_said, lambda: run(LearnerEndpoint(address))) == 143
    assert f"no answer from the learner at {address} for" in caplog.text
