"""The actor's side of the exchange, without sockets, clocks or tensors: messages and time in, effects out.

    joining --welcome--> working --no credit, accumulator full--> waiting --acknowledgement--> working
       any  --silence, refused(unknown), newer epoch--> joining        any --stop(final)--> left

A gradient leaves when there is credit. Without credit the actor goes on and adds up to `accumulate` gradients, then
waits: this bound, not a smaller step, is what keeps many actors from drowning one learner (docs/decisions.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from actor.rollout_summary import Harvest
from actor.trips import Trips
from common.wire.bodies.broadcast import keyframe_of, run_mark
from common.wire.frames import Buffer
from common.wire.membership import Membership
from common.wire.messages import (
    Acknowledgement,
    AnyMessage,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Pull,
    Stop,
    Trajectory,
    Trial,
    Weights,
    Welcome,
)

RESEND_SECONDS = 10.0
"""An unanswered gradient is sent again after so long; the learner knows duplicates by their number."""
PULL_SECONDS = 1.0
"""Between two pulls."""
_run = attrgetter("run", "epoch", "settings")
"""Other settings in the same epoch: trajectories are wanted from now on."""
_work = attrgetter("model", "codec", "weights_format", "weights_port", "settings")
"""Of two welcomes equal: environments, network and codecs made for one serve the other as well."""


@dataclass(frozen=True)
class Send:
    """Send a message; nothing is lost if there is no connection."""

    message: AnyMessage


@dataclass(frozen=True)
class Prepare:
    """Build environments and network for this run and load its weights."""

    welcome: Welcome
    body: Buffer | None


@dataclass(frozen=True)
class Load:
    """Newer weights, in the format of the welcome or (`delta`) as what has changed since the last whole ones."""

    version: int
    body: Buffer
    delta: bool = False


@dataclass(frozen=True)
class Ship:
    """Pack what has been added up, send it under this header, keep the packed body until it is answered."""

    header: Gradient | Trajectory


@dataclass(frozen=True)
class Reship:
    """Send a kept body again."""

    header: Gradient | Trajectory


@dataclass(frozen=True)
class Forget:
    """The body of this number is answered; drop it. 0: drop all, and what has been added up as well.

    `dropped`: the learner said that it is in no step.
    """

    sequence: int
    dropped: bool = False


@dataclass(frozen=True)
class Leave:
    """The run is over for this actor."""

    reason: str


Effect = Send | Prepare | Load | Ship | Reship | Forget | Leave


class ActorCore:
    """One actor towards one learner."""

    def __init__(self, hello: Hello, now: float) -> None:
        """The first hello is due at once."""
        self.membership = Membership(hello, now)
        self.version = 0
        """Weights held."""
        self.trouble = ""
        self._newest = 0
        self._keyframe = -1
        """Version of the whole weights that came last: what deltas are against."""
        self._actors = self._credit = 1
        self._sequence = 0
        self._accumulate, self._trajectories = 1, False
        self._pending = Harvest()
        self._unanswered: dict[int, tuple[Gradient | Trajectory, float]] = {}
        self._pull_due = 0.0
        self._trips = Trips()

    @property
    def welcome(self) -> Welcome | None:
        """Of the run this actor is prepared for."""
        return self.membership.welcome

    @property
    def state(self) -> str:
        """joining, working or waiting."""
        if not self.membership.member:
            return "joining"
        return "waiting" if self._pending.count >= self._accumulate and not self._has_credit else "working"

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        if not self.membership.member:
            return self.membership.deadline
        resend = min((sent for _, sent in self._unanswered.values()), default=math.inf) + RESEND_SECONDS
        return min(self.membership.deadline, resend)

    @property
    def _has_credit(self) -> bool:
        return self._credit == 0 or len(self._unanswered) < self._credit

    @property
    def keeps_unanswered(self) -> bool:
        """Whether gradients are kept until they are answered; without a limit on credit they are not."""
        return self._credit > 0

    def configure(self, accumulate: int, *, trajectories: bool = False) -> None:
        """Of the run: how much is added up without credit before it waits (0: for each answer), and what is sent."""
        self._accumulate, self._trajectories = accumulate, trajectories

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """One message from the learner. Raises `RefusedError` when it is a refusal for good."""
        previous = self.membership.welcome
        self.membership.handle(now, message)
        match message:
            case Welcome():
                return self._welcomed(now, previous, message, body)
            case Acknowledgement():
                return self._answered(now, message)
            case Weights():
                return self._weights(now, message.epoch, message.version, body, message.delta)
            case Heartbeat():
                self._trips.beaten(now)
                return []
            case Stop(final=True):
                return [Leave(message.reason)]
            case Stop():
                self.membership.lost(now)
                return []
            case _:
                return []

    def broadcast(
        self, now: float, run: bytes, epoch: int, version: int, body: Buffer, *, delta: bool = False
    ) -> list[Effect]:
        """Weights from the broadcast; one of a newer epoch means that the learner restarted: join again."""
        welcome = self.membership.welcome
        if welcome is None or run != run_mark(welcome.run):
            return []
        if epoch > welcome.epoch and self.membership.member:
            self.membership.lost(now)
        return self._weights(now, epoch, version, body, delta)

    def harvested(self, now: float, harvest: Harvest) -> list[Effect]:
        """A rollout's gradient has been added up; it leaves at once if there is credit."""
        self._pending.add(harvest)
        return self._ship(now) + self._pull(now)

    def tried(self, trial: Trial) -> list[Effect]:
        """What the first rollouts took is known; told once the way to the learner is known as well."""
        known = self.membership.member and self._trips.known
        return [Send(self._trips.added_to(trial))] if known else []

    def tick(self, now: float) -> list[Effect]:
        """What is due: hello, heartbeat, a gradient that nobody answered."""
        effects: list[Effect] = []
        due = self.membership.tick(now, self.state, self.trouble)
        if due is not None:
            effects.append(Send(due))
        if isinstance(due, Heartbeat):
            self.trouble = ""
            self._trips.beat(now)
        if self.membership.member:
            for sequence, (header, sent) in self._unanswered.items():
                if now - sent >= RESEND_SECONDS:
                    self._unanswered[sequence] = (header, now)
                    effects.append(Reship(header))
        return effects

    def leave(self, reason: str) -> list[Effect]:
        """Says goodbye; what has been added up and not sent is given up."""
        return [Send(Goodbye(reason=reason)), Leave(reason)]

    def _welcomed(self, now: float, previous: Welcome | None, welcome: Welcome, body: Buffer | None) -> list[Effect]:
        self._credit, self._actors = welcome.credit, max(1, welcome.actors)
        effects: list[Effect] = []
        again = previous is not None and _run(previous) == _run(welcome)
        if again:
            # The same learner after a lost connection: what it may not have seen goes again, once.
            effects += [Reship(header) for header, _ in self._unanswered.values()]
            self._unanswered = {number: (header, now) for number, (header, _) in self._unanswered.items()}
        else:
            self._unanswered.clear()
            self._pending = Harvest()
            effects.append(Forget(0))
        if previous is None or _work(previous) != _work(welcome):
            effects.append(Prepare(welcome, body))
            self._keyframe = welcome.version
        elif body is not None and (welcome.version > self.version or not again):
            effects.append(Load(welcome.version, body))
            self._keyframe = welcome.version
        # A second answer to a hello may be older than what the broadcast has brought since.
        self.version = self._newest = max(self.version, welcome.version) if again else welcome.version
        return effects + self._ship(now)

    def _answered(self, now: float, answer: Acknowledgement) -> list[Effect]:
        self._credit, self._actors, self._newest = answer.credit, max(1, answer.actors), answer.version
        if (answered := self._unanswered.pop(answer.sequence, None)) is None:
            return []
        self._trips.answered(now - answered[1])
        if answer.verdict == "stale":
            self._pull_due = now
        # A duplicate was answered before, the answer lost: most likely it was taken, and nothing may count twice.
        dropped = answer.verdict in ("stale", "refused")
        return [Forget(answer.sequence, dropped), *self._ship(now), *self._pull(now, answer.verdict == "stale")]

    def _weights(self, now: float, epoch: int, version: int, body: Buffer | None, delta: bool) -> list[Effect]:
        welcome = self.membership.welcome
        if welcome is None or epoch != welcome.epoch or body is None or version <= self.version:
            return []
        self._newest = max(self._newest, version)
        if delta and keyframe_of(body) != self._keyframe:
            return self._pull(now, behind=True)
        self.version = version
        if not delta:
            self._keyframe = version
        return [Load(version, body, delta)]

    def _ship(self, now: float) -> list[Effect]:
        welcome = self.membership.welcome
        if welcome is None or not self.membership.member or self._pending.count == 0 or not self._has_credit:
            return []
        self._sequence += 1
        pending, self._pending = self._pending, Harvest()
        kind: Callable[..., Gradient | Trajectory] = Trajectory
        if not self._trajectories:
            kind = functools.partial(Gradient, statistics=pending.statistics)
        header = kind(
            run=welcome.run,
            epoch=welcome.epoch,
            sequence=self._sequence,
            model=welcome.model,
            codec=welcome.codec,
            version=pending.version,
            steps=pending.steps,
            emulator_frames=pending.emulator_frames,
            count=pending.count,
            episodes=pending.episodes,
            moments=pending.moments,
        )
        if self._credit:
            self._unanswered[self._sequence] = (header, now)
        return [Ship(header)]

    def _pull(self, now: float, behind: bool = False) -> list[Effect]:
        behind = behind or self._newest - self.version > 2 * self._actors
        if not behind or now < self._pull_due:
            return []
        self._pull_due = now + PULL_SECONDS
        return [Send(Pull(version=self.version))]
