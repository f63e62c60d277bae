"""The evaluator's side of the protocol, without sockets, clocks or environments: messages and time in, effects out.

    joining --welcome, pull--> waiting --weights--> playing --evaluation, pull--> waiting
        any --silence, refused(unknown)--> joining, and goes on playing        any --stop(final)--> left

The learner decides when to evaluate: it answers a pull when it is time, with new weights, or with none if those of the
last evaluation are to be evaluated once more.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from actor.effects import Effect, Prepare
from actor.failure_rule import FailureRule
from actor.outbox import Send
from actor.refusals import not_understood
from actor.worker_core import WorkerCore
from common.errors import A3cdError, CodecError
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import (
    AnyMessage,
    Evaluation,
    Hello,
    Pull,
    Stop,
    Weights,
    Welcome,
)

if TYPE_CHECKING:
    from actor.evaluator.player import EvaluationPlayer  # loads gymnasium, which an evaluator loads after its hello

ASK_SECONDS = 30.0
"""Interval between two pulls of an evaluator that waits for weights; the learner answers when it is time."""
_epoch = attrgetter("run", "epoch")
"""Two welcomes with the same values of these fields belong to one epoch of a learner."""
_work = attrgetter("model", "weights_format", "settings")
"""A player made for one welcome also serves another with the same values of these fields."""


class EvaluatorCore(WorkerCore):
    """One evaluator's state with respect to one learner."""

    player: EvaluationPlayer | None

    def __init__(self, hello: Hello, now: float) -> None:
        super().__init__(hello, now)
        self.playing = False
        self.version: int | None = None
        """Version of the player's weights; None: they are not of this epoch."""
        self._report: Evaluation | None = None
        """An evaluation that is not sent yet."""
        self._ask_due = math.inf

    @property
    def state(self) -> str:
        """Return "joining", "playing" or "waiting"."""
        if not self.membership.member:
            return "joining"
        return "playing" if self.playing else "waiting"

    @property
    def ready(self) -> bool:
        return self.playing

    @property
    def deadline(self) -> float:
        due = self.membership.deadline
        return min(due, self._ask_due) if self.membership.member and not self.playing else due

    def unsent(self, now: float, send: Send) -> None:
        super().unsent(now, send)
        if isinstance(send.message, Evaluation):
            self._report = send.message

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        previous = self.membership.welcome
        self.membership.handle(now, message)
        match message:
            case Welcome():
                return self._welcomed(now, previous, message)
            case Weights():
                return self._weights(message, body)
            case Stop(final=True):
                return self.leave(message.reason)
            case Stop():
                self.membership.lost(now)
        return []

    def advanced(self, now: float) -> list[Effect]:
        """Report the complete evaluation, and ask for the next."""
        self._failures.succeeded()
        self.playing = False
        player, welcome, version = self.player, self.membership.welcome, self.version
        assert player is not None and welcome is not None and version is not None
        self._report = Evaluation(run=welcome.run, epoch=welcome.epoch, version=version, episodes=player.episodes)
        return self._ask(now)

    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        """Begin the evaluation anew, and warn."""
        self._failures.failed(now, error)
        if self.player is not None:
            self.player.begin()
        return self._warn(str(error))

    def _due(self, now: float) -> list[Effect]:
        """Return the pull for weights, if it is due."""
        return self._ask(now) if not self.playing and now >= self._ask_due else []

    def _ask(self, now: float) -> list[Effect]:
        """Send the finished evaluation, if any, and pull the weights to evaluate next."""
        if not self.membership.member:
            return []
        self._ask_due = now + ASK_SECONDS
        report, self._report = self._report, None
        effects: list[Effect] = [] if report is None else [Send(report)]
        return [*effects, Send(Pull(version=self.version or 0, whole=self.version is None))]

    def _welcomed(self, now: float, previous: Welcome | None, welcome: Welcome) -> list[Effect]:
        if previous is None or _epoch(previous) != _epoch(welcome):
            self.playing, self.version, self._report = False, None, None
        if not self.playing:
            self._ask_due = now
        if self._prepared is not None and _work(self._prepared) == _work(welcome):
            return []
        try:
            settings = msgspec.convert(welcome.settings, Settings)
        except msgspec.ValidationError as error:
            return self.refuse(now, not_understood(welcome, error))
        self._prepared = welcome
        self._failures = FailureRule()
        self.playing, self.version = False, None
        return [Prepare(welcome, settings, None)]

    def _weights(self, message: Weights, body: Buffer | None) -> list[Effect]:
        welcome = self.membership.welcome
        if self.player is None or self.playing or welcome is None or message.epoch != welcome.epoch:
            return []
        if body is not None:
            try:
                self.player.load(body)
            except CodecError as error:
                self.version = None
                return self._warn(f"the learner sent {error}")
            self.version = message.version
        elif message.version != self.version:
            return []
        self.playing = True
        self.player.begin()
        return []
