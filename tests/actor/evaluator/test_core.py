"""The evaluator's core with a player that takes notes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actor.effects import Leave, Prepare, Warn
from actor.evaluator.core import ASK_SECONDS, EvaluatorCore
from actor.failure_rule import FAILURES_IN_A_ROW
from actor.outbox import Send
from common.errors import CodecError, UnavailableError
from common.rl.episode import Episode
from common.wire.frames import Buffer
from common.wire.messages import (
    AnyMessage,
    Evaluation,
    Goodbye,
    Heartbeat,
    Hello,
    Pull,
    Refused,
    Stop,
    Weights,
    Welcome,
)
from tests.helpers.run import hello_of, settings_of, welcome_of

EPISODES = [Episode(9.0, 9, 0.0)]
BODY = b"weights"
SETTINGS = msgspec.to_builtins(settings_of())


class Player:
    episodes = EPISODES

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.begun = 0

    def load(self, body: Buffer) -> None:
        if body == b"bad":
            raise CodecError("weights of 3 bytes")
        self.loaded.append(bytes(body))

    def begin(self) -> None:
        self.begun += 1


def welcome(**changed: Any) -> Welcome:
    return welcome_of(**{"settings": SETTINGS, "codec": "", **changed})


def messages(effects: list[Any]) -> list[AnyMessage]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def member() -> tuple[EvaluatorCore, Player]:
    """Welcome, and has asked for weights."""
    core, player = EvaluatorCore(hello_of("e", "evaluator"), 0.0), Player()
    assert isinstance(messages(core.tick(0.0))[0], Hello)
    (prepare,) = core.handle(0.1, welcome(), None)
    assert isinstance(prepare, Prepare)
    core.player = player  # type: ignore[assignment]
    assert Pull(version=0, whole=True) in messages(core.tick(0.1))
    return core, player


def playing(version: int = 5) -> tuple[EvaluatorCore, Player]:
    core, player = member()
    assert core.handle(0.2, Weights(version=version, epoch=1), BODY) == []
    assert (core.state, core.version, player.loaded, player.begun) == ("playing", version, [BODY], 1)
    return core, player


def test_it_plays_what_it_is_given_reports_it_and_asks_for_more() -> None:
    core, player = playing(version=5)
    report, pull = messages(core.advanced(1.0))
    assert report == Evaluation(run="a-run", epoch=1, version=5, episodes=EPISODES)
    assert pull == Pull(version=5)
    assert core.state == "waiting"
    core.handle(2.0, Weights(version=8, epoch=1), b"newer")
    assert (core.version, player.loaded[-1], player.begun) == (8, b"newer", 2)


def test_weights_without_a_body_are_those_that_it_has() -> None:
    core, player = playing(version=5)
    core.advanced(1.0)
    core.handle(1.1, Weights(version=4, epoch=1), None)
    assert core.state == "waiting"
    core.handle(1.2, Weights(version=5, epoch=1), None)
    assert (core.state, player.begun, player.loaded) == ("playing", 2, [BODY])


def test_while_it_waits_it_asks_again_and_while_it_plays_it_does_not() -> None:
    core, _ = member()
    assert core.deadline <= 0.1 + ASK_SECONDS
    assert not [one for one in messages(core.tick(ASK_SECONDS)) if isinstance(one, Pull)]
    core.handle(ASK_SECONDS, Stop(reason="", final=False), None)
    core.handle(ASK_SECONDS, welcome(), None)
    assert [one for one in messages(core.tick(ASK_SECONDS)) if isinstance(one, Pull)]
    core, _ = playing()
    core.handle(99.0, Weights(version=5, epoch=1), None)
    assert not [one for one in messages(core.tick(100.0)) if isinstance(one, Pull)]


def test_weights_of_another_epoch_and_what_comes_while_it_plays_are_left_alone() -> None:
    core, player = member()
    core.handle(0.2, Weights(version=5, epoch=2), BODY)
    assert core.state == "waiting"
    core, player = playing()
    core.handle(0.3, Weights(version=9, epoch=1), BODY)
    assert (core.version, player.begun) == (5, 1)


def test_a_broken_connection_does_not_end_an_evaluation() -> None:
    core, player = playing(version=5)
    core.connected(1.0)
    assert core.state == "joining"
    assert core.playing
    assert messages(core.advanced(1.1)) == [], "nobody is there to be told"
    core.handle(2.0, welcome(), None)
    sent = messages(core.tick(2.0))
    assert [type(one).__name__ for one in sent] == ["Heartbeat", "Evaluation", "Pull"]
    assert player.begun == 1


def test_a_report_that_could_not_be_sent_is_sent_later() -> None:
    core, _ = playing()
    report, _ = core.advanced(1.0)
    assert isinstance(report, Send)
    core.unsent(1.0, report)
    core.handle(20.0, Heartbeat(), None)
    sent = messages(core.tick(1.0 + ASK_SECONDS))
    assert [one for one in sent if isinstance(one, Evaluation)] == [report.message]


def test_a_new_epoch_begins_anew_with_the_same_player() -> None:
    core, player = playing()
    assert core.handle(1.0, welcome(epoch=2), None) == []
    assert (core.state, core.version) == ("waiting", None)
    assert Pull(version=0, whole=True) in messages(core.tick(1.0))
    assert core.player is player


@pytest.mark.parametrize("changed", [{"model": "f" * 16}, {"settings": SETTINGS | {"seed": 4}}])
def test_another_network_or_other_settings_need_another_player(changed: dict[str, Any]) -> None:
    core, _ = playing()
    (prepare,) = core.handle(1.0, welcome(**changed), None)
    assert isinstance(prepare, Prepare)
    assert core.version is None


def test_settings_that_are_not_understood_are_told() -> None:
    core = EvaluatorCore(hello_of("e", "evaluator"), 0.0)
    (goodbye,) = messages(core.handle(0.1, welcome(settings={"nothing": 1}), None))
    assert isinstance(goodbye, Goodbye)
    assert "install the same a3cd on both ends" in goodbye.reason
    assert core.state == "joining"


def test_weights_that_do_not_decode_are_asked_for_again() -> None:
    core, _ = member()
    (warning,) = core.handle(0.2, Weights(version=5, epoch=1), b"bad")
    assert warning == Warn("the learner sent weights of 3 bytes")
    assert (core.state, core.version) == ("waiting", None)


def test_environments_that_fail_begin_anew_until_it_is_too_often() -> None:
    core, player = playing()
    for number in range(FAILURES_IN_A_ROW - 1):
        assert core.failed(1.0 + number, UnavailableError("it fell over")) == [Warn("it fell over")]
    assert player.begun == FAILURES_IN_A_ROW
    assert core.last_error == "it fell over"
    with pytest.raises(UnavailableError, match="gave up after 10 failures in a row: it fell over"):
        core.failed(99.0, UnavailableError("it fell over"))


def test_the_end_of_the_run_lets_it_go_and_a_pause_makes_it_wait() -> None:
    core, _ = playing()
    assert core.handle(1.0, Stop(reason="over", final=True), None) == [Send(Goodbye(reason="over")), Leave("over")]
    core, _ = playing()
    assert core.handle(1.0, Stop(reason="paused", final=False), None) == []
    assert core.state == "joining"


def test_who_is_quarantined_at_work_ends() -> None:
    core, _ = playing()
    with pytest.raises(UnavailableError, match="the learner refused this evaluator: it lies"):
        core.handle(1.0, Refused(code="quarantined", reason="it lies"), None)
