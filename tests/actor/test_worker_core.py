"""What an actor's and an evaluator's core have in common, in one that has nothing else."""

from __future__ import annotations

from actor.effects import Effect, Leave, Prepare, Warn
from actor.outbox import Send
from actor.worker_core import WorkerCore
from common.errors import A3cdError
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import AnyMessage, Goodbye, Heartbeat, Pull, Welcome
from tests.helpers.run import hello_of, welcome_of

HELLO = hello_of("w")
PULL = Send(Pull(version=0))


class Core(WorkerCore):
    """Wants to pull whenever it is asked."""

    state = "idle"
    ready = False
    deadline = 0.0

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        self.membership.handle(now, message)
        if not isinstance(message, Welcome):
            return []
        self._prepared = message
        return [Prepare(message, Settings(), body)]

    def advanced(self, now: float) -> list[Effect]:
        return []

    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        return self._warn(str(error))

    def _due(self, now: float) -> list[Effect]:
        return [PULL]


def member() -> Core:
    core = Core(HELLO, 0.0)
    core.handle(0.0, welcome_of(heartbeat_seconds=2.0), None)
    core.tick(0.0)
    return core


def test_who_is_no_member_says_hello_and_nothing_else() -> None:
    core = Core(HELLO, 0.0)
    assert core.tick(0.0) == [Send(HELLO)]
    assert core.tick(0.1) == []
    core.unsent(0.1, Send(HELLO))
    assert core.tick(0.5) == [Send(HELLO)], "there was no connection"


def test_a_member_says_what_is_due_and_after_the_heartbeat() -> None:
    core = member()
    assert core.tick(1.0) == [PULL]
    assert core.tick(2.0) == [Send(Heartbeat(state="idle")), PULL]
    core.connected(2.5)
    assert core.tick(2.5) == [Send(HELLO)], "the learner does not know the new connection"


def test_what_failed_is_logged_and_told_once() -> None:
    core = member()
    assert core.failed(1.0, A3cdError("it broke")) == [Warn("it broke")]
    assert core.tick(2.0)[0] == Send(Heartbeat(state="idle", last_error="it broke"))
    assert core.tick(4.0)[0] == Send(Heartbeat(state="idle"))


def test_who_cannot_play_says_why_and_asks_again() -> None:
    core = member()
    assert core.refuse(1.0, "another network") == [Send(Goodbye(reason="another network"))]
    assert core.membership.obstacle == "another network"
    assert core._prepared is None, "the next welcome needs a player"
    assert core.tick(1.5) == []
    assert core.tick(2.0) == [Send(HELLO)]


def test_leaving_says_goodbye() -> None:
    assert member().leave("a signal") == [Send(Goodbye(reason="a signal")), Leave("a signal")]
