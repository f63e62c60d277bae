"""An actor's core with a player that plays nothing, and notes the core's calls."""

from __future__ import annotations

from typing import Any

from actor.core import ActorCore
from actor.effects import Effect
from actor.outbox import Send
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.errors import CodecError
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, AnyMessage, Gradient, Welcome
from tests.helpers.run import hello_of, welcome_of

BODY = b"weights"


class NotingPlayer(Player):
    """A player that plays nothing, and notes the core's calls."""

    contribution = Gradient

    def __init__(self) -> None:
        self.summary = RolloutSummary()
        self.loaded: list[tuple[int, bytes, bool]] = []
        self.takes_deltas = True
        self.whole: int | None = None
        self.heard: list[AnyMessage] = []
        self.numbers: list[int | None] = []
        self.answers: list[tuple[int, bool]] = []
        self.forgotten = self.restarted = 0

    @property
    def pending(self) -> int:
        return self.summary.count

    @property
    def keyframe(self) -> int | None:
        return self.whole

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        self.heard.append(message)
        if body == b"bad":
            raise CodecError("an action beyond the last")

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        if delta and not self.takes_deltas:
            return False
        self.loaded.append((version, bytes(body), delta))
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        self.numbers.append(sequence)
        summary, self.summary = self.summary, RolloutSummary()
        return summary, f"{summary.count} packed".encode()

    def answered(self, sequence: int, *, dropped: bool) -> None:
        self.answers.append((sequence, dropped))

    def restart(self) -> None:
        self.restarted += 1

    def forget(self) -> None:
        self.forgotten += 1
        self.summary = RolloutSummary()


def member(accumulate: int = 2, policy: str = "scale", **changed: Any) -> ActorCore:
    """Returns the core of an actor that is in the run and has a player."""
    core = ActorCore(hello_of("x"), 0.0)
    core.tick(0.0)
    core.handle(0.0, welcome_of(**({"settings": settings_of(accumulate, policy)} | changed)), BODY)
    core.player = NotingPlayer()
    return core


def settings_of(accumulate: int = 2, policy: str = "scale") -> dict[str, Any]:
    return {"exchange": {"accumulate": accumulate}, "staleness": {"policy": policy}}


def again(**changed: Any) -> Welcome:
    """Returns a second welcome from the same learner."""
    return welcome_of(**({"settings": settings_of()} | changed))


def player_of(core: ActorCore) -> NotingPlayer:
    assert isinstance(core.player, NotingPlayer)
    return core.player


def play(core: ActorCore, now: float, version: int = 10, **changed: Any) -> list[Effect]:
    """Completes a rollout of the player, and returns the core's effects."""
    fields: dict[str, Any] = {"version": version, "steps": 20, "emulator_frames": 80, "count": 1}
    player_of(core).summary.add(RolloutSummary(**(fields | changed)))
    return core.advanced(now)


def contribution(effects: list[Effect]) -> Gradient:
    (gradient,) = gradients(effects)
    return gradient


def gradients(effects: list[Effect]) -> list[Gradient]:
    return [message for message in messages(effects) if isinstance(message, Gradient)]


def news(version: int, epoch: int = 1, run: str = "a-run", form: str = "fp32") -> bytes:
    return Broadcast(run_mark(run), epoch, version, form, BODY).pack()


def answer(sequence: int, version: int = 10, verdict: Any = "applied", **changed: Any) -> Acknowledgement:
    fields: dict[str, Any] = {"sequence": sequence, "version": version, "verdict": verdict, "credit": 1, "actors": 2}
    return Acknowledgement(**(fields | changed))


def messages(effects: list[Effect]) -> list[AnyMessage]:
    return [effect.message for effect in effects if isinstance(effect, Send)]
