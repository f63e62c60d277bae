"""The actor's shell, in this process; its learner is in a thread."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import zmq

from actor.daemon import run
from actor.players.gradients import GradientPlayer
from common.host.security.access import LearnerEndpoint
from common.wire.messages import Acknowledgement, Act, Gradient, Heartbeat, Observe, Refused, Stop
from tests.helpers.beside import beside
from tests.helpers.daemons import BROKEN
from tests.helpers.run import settings_of
from tests.helpers.scripted import Learner

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
