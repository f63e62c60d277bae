"""The core of who plays for a learner: what an actor and an evaluator do alike. Messages and time in, effects out."""

from abc import ABC, abstractmethod
from typing import Protocol

from actor.effects import Effect, Leave, Warn
from actor.failure_rule import FailureRule
from actor.outbox import Send
from common.errors import A3cdError
from common.wire.frames import Buffer
from common.wire.membership import Membership
from common.wire.messages import AnyMessage, Goodbye, Heartbeat, Hello, Welcome


class Playing(Protocol):
    """A player, as the shell needs it."""

    def advance(self, until: float) -> bool:
        """Plays until what is played is complete (True), or until the time `until`. Raises A3cdError if it fails."""
        ...

    def close(self) -> None: ...


class WorkerCore(ABC):
    """One worker, an actor or an evaluator, towards one learner."""

    def __init__(self, hello: Hello, now: float) -> None:
        self.membership = Membership(hello, now)
        self.player: Playing | None = None
        """Set by the shell when it has done `Prepare`."""
        self.last_error = ""
        """For the next heartbeat."""
        self._prepared: Welcome | None = None
        """The last welcome that the player was made for."""
        self._failures = FailureRule()

    @property
    @abstractmethod
    def state(self) -> str:
        """For the heartbeats; joining: it is not in the run."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether there is a player with something to play."""

    @property
    @abstractmethod
    def deadline(self) -> float:
        """When `tick` has something to do, if no message comes before."""

    @abstractmethod
    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """One message from the learner. Raises UnavailableError when it is a refusal for good."""

    @abstractmethod
    def advanced(self, now: float) -> list[Effect]:
        """The player's `advance` was True."""

    @abstractmethod
    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        """The player's `advance` raised. Raises UnavailableError when it is time to give up."""

    def connected(self, now: float) -> None:
        """There is a new connection."""
        self.membership.connected(now)

    def unsent(self, now: float, send: Send) -> None:  # noqa: ARG002  the membership's own messages are made anew
        """There was no connection to send this on."""
        self.membership.unsent(now)

    def tick(self, now: float) -> list[Effect]:
        """Sends what is due: hello, heartbeat, and what a member has to say."""
        effects: list[Effect] = []
        if not self.membership.rests(now):
            due = self.membership.tick(now, self.state, self.last_error)
            if isinstance(due, Heartbeat):
                self.last_error = ""
            effects = [] if due is None else [Send(due)]
            if not self.membership.member:
                return effects
        return [*effects, *self._due(now)]

    @abstractmethod
    def _due(self, now: float) -> list[Effect]:
        """Of a member, besides the heartbeat."""

    def refuse(self, now: float, why: str) -> list[Effect]:
        """It cannot play as the welcome says: it tells the learner, and asks again, ever more slowly."""
        self._prepared = None
        self.membership.refused(now, why)
        return [Send(Goodbye(reason=why))]

    def leave(self, reason: str) -> list[Effect]:
        """What was played and not sent is lost."""
        return [Send(Goodbye(reason=reason)), Leave(reason)]

    def _warn(self, text: str) -> list[Effect]:
        self.last_error = text
        return [Warn(text)]
