"""The actor's side of the exchange, without sockets, clocks or tensors: messages and time in, effects out.

    joining --welcome--> working --no credit, accumulator full--> waiting --acknowledgement--> working
       any  --silence, refused(unknown), newer epoch--> joining        any --stop(final)--> left

The actor sends a contribution (a gradient, or trajectories) when it has credit. Without credit it plays on,
accumulates up to `accumulate` rollouts, then waits. This bound, not a smaller step, keeps many actors from flooding
one learner (docs/decisions.md).
"""

from operator import attrgetter

import msgspec

from actor.effects import Effect, Prepare
from actor.failure_rule import FailureRule
from actor.outbox import Outbox, Send
from actor.players.base import Player
from actor.refusals import not_understood
from actor.worker_core import WorkerCore
from common.errors import A3cdError, CodecError, WireError
from common.host.backoff import Backoff
from common.settings.exchanges import most_accumulated
from common.settings.sections import Settings
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.frames import Buffer
from common.wire.messages import (
    Acknowledgement,
    Act,
    AnyMessage,
    Hello,
    Pull,
    Stop,
    Weights,
    Welcome,
)

SERVICE_SECONDS = 0.02
"""Longest time that a shell lets its player play before it checks for messages; most rollouts end sooner."""
WAIT_SECONDS = 1.0
"""Longest time that a shell waits for messages."""
RESEND_SECONDS = 10.0
"""Time after which an unanswered contribution is sent again; the learner recognizes duplicates by their number."""
PULL_SECONDS = 1.0
"""Shortest time between two pulls; each pull doubles it while the actor has no weights of this epoch."""
SLOW_PULL_SECONDS = 30.0
"""Longest time between two pulls."""
_epoch = attrgetter("run", "epoch", "settings", "relay")
"""Two welcomes with the same values of these fields belong to one epoch of a learner, and to one relay if any."""
_work = attrgetter("model", "codec", "weights_format", "weights_port", "settings")
"""A player made for one welcome also serves another with the same values of these fields."""


class ActorCore(WorkerCore):
    """One actor's state with respect to one learner."""

    player: Player | None

    def __init__(self, hello: Hello, now: float) -> None:
        super().__init__(hello, now)
        self.outbox = Outbox()
        """Contributions by sequence number, or the player's requests for actions by environment group."""
        self.version = 0
        """Version of the newest weights received."""
        self._newest = 0
        """Version of the newest weights the learner is known to have."""
        self._actors = self._credit = 1
        self._accumulate = 1
        self._sequence = 0
        self._lacks_weights = False
        """Whether there are no weights of this epoch, so that nothing can be played."""
        self._pull_due = 0.0
        self._pulls = Backoff(PULL_SECONDS, SLOW_PULL_SECONDS)

    @property
    def state(self) -> str:
        """Return "joining", "working" or "waiting"."""
        if not self.membership.member:
            return "joining"
        full = self.player is not None and self.player.pending >= self._accumulate
        return "waiting" if self._lacks_weights or (full and not self._has_credit) else "working"

    @property
    def ready(self) -> bool:
        return self.player is not None and self.player.ready and self.state == "working"

    @property
    def deadline(self) -> float:
        due = self.membership.deadline
        if not self.membership.member:
            return due
        return min(due, self.outbox.deadline, self._pull_due if self._lacks_weights else due)

    def connected(self, now: float) -> None:
        super().connected(now)
        self.outbox.disconnected()

    def unsent(self, now: float, send: Send) -> None:
        super().unsent(now, send)
        self.outbox.unsent(now, send)

    @property
    def _has_credit(self) -> bool:
        return self._credit == 0 or len(self.outbox) < self._credit

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        previous = self.membership.welcome
        self.membership.handle(now, message)
        match message:
            case Welcome():
                return self._welcomed(now, previous, message, body)
            case Acknowledgement():
                return self._answered(now, message)
            case Weights():
                return self._weights(now, message.epoch, message.version, body, message.delta)
            case Act() if self.player is not None:
                try:
                    self.player.handle(message, body)
                except CodecError as error:
                    return self._warn(f"the learner sent {error}")
            case Stop(final=True):
                return self.leave(message.reason)
            case Stop():
                self.membership.lost(now)
        return []

    def broadcast(self, now: float, frame: Buffer) -> list[Effect]:
        """Take weights from a frame of the broadcast."""
        try:
            news = Broadcast.unpack(frame)
        except WireError as error:
            return self._warn(str(error))
        return self.news(now, news)

    def news(self, now: float, news: Broadcast) -> list[Effect]:
        """Take an unpacked broadcast. One of a newer epoch means that the learner restarted: the actor joins again."""
        welcome = self.membership.welcome
        if welcome is None or news.run != run_mark(welcome.run):
            return []
        if news.epoch > welcome.epoch and self.membership.member:
            self.membership.lost(now)
        return self._weights(now, news.epoch, news.version, news.body, news.format == "delta")

    def advanced(self, now: float) -> list[Effect]:
        """Send the finished rollout if there is credit; a request for actions is sent at once."""
        self._failures.succeeded()
        return [*self._contribute(now), *self._pull(now), *self.outbox.due(now)]

    def failed(self, now: float, error: A3cdError) -> list[Effect]:
        """Drop the rollout under way and warn."""
        self._failures.failed(now, error)
        if self.player is not None:
            self.player.restart()
        return self._warn(str(error))

    def _due(self, now: float) -> list[Effect]:
        """Return unanswered messages whose time to be sent again has come, and a pull if weights are lacking."""
        return [*self.outbox.due(now), *self._pull(now, behind=self._lacks_weights)]

    def _welcomed(self, now: float, previous: Welcome | None, welcome: Welcome, body: Buffer | None) -> list[Effect]:
        self._credit, self._actors = welcome.credit, max(1, welcome.actors)
        same_epoch = previous is not None and _epoch(previous) == _epoch(welcome)
        if not same_epoch:
            self.outbox.clear()
            if self.player is not None:
                self.player.forget()
            self._lacks_weights = bool(welcome.codec)
        effects: list[Effect] = []
        if self._prepared is None or _work(self._prepared) != _work(welcome):
            try:
                settings = msgspec.convert(welcome.settings, Settings)
            except msgspec.ValidationError as error:
                return self.refuse(now, not_understood(welcome, error))
            self._prepared = welcome
            self._accumulate = most_accumulated(settings)
            self._failures = FailureRule()
            self._lacks_weights = bool(welcome.codec)
            effects.append(Prepare(welcome, settings, body))
        elif self.player is not None:
            if body is not None and (welcome.version > self.version or not same_epoch or self._lacks_weights):
                self.player.load(welcome.version, body)
            self.player.handle(welcome, None)
        if not same_epoch:
            self.version = 0
        # A second answer to a hello may be older than the weights that the broadcast has brought since.
        self._newest = max(self.version, welcome.version)
        if body is not None or not welcome.codec:
            self.version, self._lacks_weights = self._newest, False
        elif self._lacks_weights:  # pull before `Prepare`, because making the player takes seconds
            self._pull_due = now
            self._pulls.reset()
            effects = [*self._pull(now, behind=True), *effects]
        # The learner may have missed messages that were sent before the connection was lost.
        return [*effects, *self.outbox.due(now, all_of_them=True), *self._contribute(now)]

    def _answered(self, now: float, answer: Acknowledgement) -> list[Effect]:
        self._credit = answer.credit
        self._actors = max(1, answer.actors)
        self._newest = answer.version
        if self.player is None or not self.outbox.remove(answer.sequence):
            return []
        # "duplicate" means that an earlier answer was lost: most likely the contribution was applied, so it counts as
        # not dropped; otherwise it would be sent, and counted, twice.
        self.player.answered(answer.sequence, dropped=answer.verdict in ("stale", "refused"))
        stale = answer.verdict == "stale"
        if stale:
            self._pull_due = now
        return [*self._contribute(now), *self._pull(now, behind=stale)]

    def _weights(self, now: float, epoch: int, version: int, body: Buffer | None, delta: bool) -> list[Effect]:
        welcome = self.membership.welcome
        if self.player is None or welcome is None or epoch != welcome.epoch or body is None:
            return []
        # Whole weights of a version that is here by a delta are not known yet: later deltas are against them.
        whole = None if delta else self.player.keyframe
        if version <= (self.version if whole is None else whole) and not self._lacks_weights:
            return []
        self._newest = max(self._newest, version)
        if not self.player.load(version, body, delta=delta):
            return self._pull(now, behind=True)
        self.version, self._lacks_weights = version, False
        return []

    def _contribute(self, now: float) -> list[Effect]:
        player, welcome = self.player, self.membership.welcome
        if player is None or player.pending == 0 or welcome is None:
            return []
        if not self.membership.member or not self._has_credit:
            return []
        self._sequence += 1
        summary, body = player.pack(self._sequence if self._credit else None)
        header = player.contribution(
            run=welcome.run,
            epoch=welcome.epoch,
            sequence=self._sequence,
            model=welcome.model,
            codec=welcome.codec,
            **summary.fields(),
        )
        if self._credit:
            self.outbox.add(self._sequence, Send(header, body), RESEND_SECONDS)
            return [*self.outbox.due(now)]
        # If credit is unlimited, the network's queue is the only bound: when it is full, the actor must wait.
        return [Send(header, body, wait=True)]

    def _pull(self, now: float, behind: bool = False) -> list[Effect]:
        behind = behind or self._newest - self.version > 2 * self._actors
        if not behind or now < self._pull_due:
            return []
        self._pull_due = now + self._pulls.next()
        if not self._lacks_weights:  # otherwise back off: the weights are on their way, or wait for their turn
            self._pulls.reset()
        keyframe = None if self.player is None else self.player.keyframe
        held = self.version if keyframe is None else keyframe
        return [Send(Pull(version=max(0, held), whole=self._lacks_weights or held < 0))]
