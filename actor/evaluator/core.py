"""The evaluator's side of the protocol, without sockets, clocks or environments: messages and time in, effects out.

    joining --welcome, pull--> waiting --weights--> playing --evaluation, pull--> waiting
        any --silence, refused(unknown)--> joining, and goes on playing        any --stop(final)--> left

The learner says when there is something to evaluate: it answers a pull when it is time, with new weights, or with none
when those of the last evaluation are to be evaluated once more.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from actor.core import Leave, Prepare, Warn
from actor.failure_rule import FailureRule
from actor.outbox import Send
from actor.refusals import not_understood
from common.errors import A3cdError, CodecError
from common.rl.episode import Episode
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.membership import Membership
from common.wire.messages import (
    AnyMessage,
    Evaluation,
    Goodbye,
    Heartbeat,
    Hello,
    Pull,
    Stop,
    Weights,
    Welcome,
)

if TYPE_CHECKING:
    from actor.evaluator.player import EvaluationPlayer  # loads gymnasium, which is done after the hello

ASK_SECONDS = 30.0
"""Between two pulls of an evaluator that waits for weights: the learner answers when it is time."""
_epoch = attrgetter("run", "epoch")
"""Two welcomes that agree in these are of one epoch of a learner."""
_work = attrgetter("model", "weights_format", "settings")
"""A player made for one welcome serves another that agrees in these."""

Effect = Send | Prepare | Warn | Leave


class EvaluatorCore:
    """One evaluator towards one learner."""

    def __init__(self, hello: Hello, now: float) -> None:
        self.membership = Membership(hello, now)
        self.player: EvaluationPlayer | None = None
        """Set by the shell when it has done `Prepare`."""
        self.last_error = ""
        """For the next heartbeat."""
        self.playing = False
        self.version: int | None = None
        """Of the weights that the player has; None: none of this epoch."""
        self._prepared: Welcome | None = None
        """The last welcome that the player was made for."""
        self._report: Evaluation | None = None
        """Not sent yet."""
        self._ask_due = math.inf
        self._failures = FailureRule()

    @property
    def state(self) -> str:
        """joining, playing or waiting."""
        if not self.membership.member:
            return "joining"
        return "playing" if self.playing else "waiting"

    @property
    def deadline(self) -> float:
        due = self.membership.deadline
        return min(due, self._ask_due) if self.membership.member and not self.playing else due

    def connected(self, now: float) -> None:
        """There is a new connection."""
        self.membership.connected(now)

    def unsent(self, now: float, send: Send) -> None:
        """There was no connection to send this on."""
        self.membership.unsent(now)
        if isinstance(send.message, Evaluation):
            self._report = send.message

    def refuse(self, now: float, why: str) -> list[Effect]:
        """This evaluator cannot play as the welcome says: it tells the learner, and asks again, ever more slowly."""
        self._prepared = None
        self.membership.refused(now, why)
        return [Send(Goodbye(reason=why))]

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """One message from the learner. Raises UnavailableError when it is a refusal for good."""
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

    def played(self, now: float, episodes: list[Episode]) -> list[Effect]:
        """The player has completed an evaluation."""
        self._failures.succeeded()
        self.playing = False
        welcome = self.membership.welcome
        assert welcome is not None
        assert self.version is not None
        self._report = Evaluation(run=welcome.run, epoch=welcome.epoch, version=self.version, episodes=episodes)
        return self._ask(now)

    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        """The player raised: it begins the evaluation anew. Raises UnavailableError when it is time to give up."""
        self._failures.failed(now, error)
        if self.player is not None:
            self.player.begin()
        return self._warn(str(error))

    def tick(self, now: float) -> list[Effect]:
        """Sends what is due: hello, heartbeat, and the question for weights."""
        effects: list[Effect] = []
        if not self.membership.rests(now):
            due = self.membership.tick(now, self.state, self.last_error)
            if isinstance(due, Heartbeat):
                self.last_error = ""
            effects = [] if due is None else [Send(due)]
        if self.membership.member and not self.playing and now >= self._ask_due:
            effects += self._ask(now)
        return effects

    def leave(self, reason: str) -> list[Effect]:
        """An evaluation under way is lost."""
        return [Send(Goodbye(reason=reason)), Leave(reason)]

    def _ask(self, now: float) -> list[Effect]:
        """Tells what was played, and asks for what to play next."""
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

    def _warn(self, text: str) -> list[Effect]:
        self.last_error = text
        return [Warn(text)]
