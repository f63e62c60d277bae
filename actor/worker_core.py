"""The core of a worker: what an actor and an evaluator have in common. Messages and time in, effects out."""

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
        """Plays until a unit of work is complete (True), or until the time `until` (False).

        Raises A3cdError if playing fails.
        """
        ...

    def close(self) -> None: ...


class WorkerCore(ABC):
    """One worker's (an actor's or an evaluator's) state with respect to one learner."""

    def __init__(self, hello: Hello, now: float) -> None:
        self.membership = Membership(hello, now)
        self.player: Playing | None = None
        """Set by the shell when it carries out `Prepare`."""
        self.last_error = ""
        """The error that the next heartbeat reports."""
        self._prepared: Welcome | None = None
        """The welcome that the player was made for."""
        self._failures = FailureRule()

    @property
    @abstractmethod
    def state(self) -> str:
        """The state that heartbeats report; "joining": not in the run."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether there is a player with something to play."""

    @property
    @abstractmethod
    def deadline(self) -> float:
        """The time when `tick` next has something to do, unless a message comes first."""

    @abstractmethod
    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """Handles one message from the learner. Raises UnavailableError if it is a permanent refusal."""

    @abstractmethod
    def advanced(self, now: float) -> list[Effect]:
        """The player's `advance` returned True."""

    @abstractmethod
    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        """The player's `advance` raised `error`. Raises UnavailableError when it is time to give up."""

    def connected(self, now: float) -> None:
        """There is a new connection."""
        self.membership.connected(now)

    def unsent(self, now: float, send: Send) -> None:  # noqa: ARG002  the membership makes its own messages anew
        """`send` failed: there was no connection."""
        self.membership.unsent(now)

    def tick(self, now: float) -> list[Effect]:
        """Returns the messages that are due: hello, heartbeat, and those of `_due`."""
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
        """Returns a member's effects that are due, besides the heartbeat."""

    def refuse(self, now: float, why: str) -> list[Effect]:
        """Tells the learner that this host cannot play as the welcome says, and joins again, at growing intervals."""
        self._prepared = None
        self.membership.refused(now, why)
        return [Send(Goodbye(reason=why))]

    def leave(self, reason: str) -> list[Effect]:
        """Leaves the run; anything played and not yet sent is lost."""
        return [Send(Goodbye(reason=reason)), Leave(reason)]

    def _warn(self, text: str) -> list[Effect]:
        self.last_error = text
        return [Warn(text)]
