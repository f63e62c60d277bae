"""The relay as its learner sees it: an actor that plays nothing itself, and reports how many actors it stands for."""

import math
from collections.abc import Callable

from actor.core import ActorCore
from actor.effects import Effect
from actor.outbox import Send
from common.errors import WireError
from common.settings.codec_names import NAMES
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, AnyMessage, Hello, SiteReport, Welcome

REPORT_SECONDS = 0.5
"""Shortest interval between reports when the number of actors changes; otherwise they come as often as heartbeats."""


class Uplink(ActorCore):
    """The relay's core towards the learner; its player is the sum (`relay.sum_player`)."""

    def __init__(self, hello: Hello, now: float, report: Callable[[float], SiteReport]) -> None:
        super().__init__(hello, now)
        self._report = report
        self._reported = 0
        """Number of actors in the last report."""
        self._report_due = math.inf
        """When the next report is due."""
        self._soon = math.inf
        """Earliest time of a report on a changed number of actors."""
        self._in_run = 0

    @property
    def actors(self) -> int:
        """Number of actors in the whole run, as the learner last said."""
        return max(1, self._in_run)

    @property
    def deadline(self) -> float:
        return min(super().deadline, self._report_due) if self.membership.member else super().deadline

    def handle(self, now: float, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        before = self.membership.welcome
        if isinstance(message, Welcome):
            if not message.parameters or message.codec not in NAMES:
                return self.refuse(now, "the learner does not say what a relay is to add up")
            if before is None or (before.run, before.epoch) != (message.run, message.epoch):
                self._prepared = self.player = None  # everything that a relay holds belongs to one epoch
            self._report_due = now
        if isinstance(message, Welcome | Acknowledgement):
            self._in_run = message.actors
        return super().handle(now, message, body)

    def hear(self, now: float, frame: bytes) -> tuple[list[Effect], Broadcast | None]:
        """Takes a broadcast. Returns effects, and the broadcast to be passed on if it is of this run and epoch."""
        try:
            news = Broadcast.unpack(frame)
        except WireError as error:
            return self._warn(str(error)), None
        welcome = self.membership.welcome
        ours = welcome is not None and (news.run, news.epoch) == (run_mark(welcome.run), welcome.epoch)
        return self.news(now, news), news if ours else None

    def send_sum(self, now: float) -> list[Effect]:
        """Sends the sum, if there is one and the learner has answered enough of the earlier ones."""
        return self._contribute(now)

    def site_changed(self, now: float, actors: int) -> None:
        """The site now has this many actors."""
        if actors != self._reported:
            self._report_due = min(self._report_due, max(now, self._soon))

    def say(self, text: str) -> None:
        """Tells the learner's operator `text` with the next heartbeat."""
        self.last_error = text

    def _due(self, now: float) -> list[Effect]:
        effects = super()._due(now)
        welcome = self.membership.welcome
        if now >= self._report_due and welcome is not None:
            report = self._report(now)
            self._reported, self._soon = report.actors, now + REPORT_SECONDS
            self._report_due = now + welcome.heartbeat_seconds
            effects = [Send(report), *effects]
        return effects
