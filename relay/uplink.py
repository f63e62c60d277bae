"""The relay as its learner knows it: an actor that plays nothing, and tells for how many actors it stands."""

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
"""Between two reports where the number of actors changes; without a change they come as often as heartbeats."""


class Uplink(ActorCore):
    """Towards the learner; its player is the sum (`relay.sum_player`)."""

    def __init__(self, hello: Hello, now: float, report: Callable[[float], SiteReport]) -> None:
        super().__init__(hello, now)
        self._report = report
        self._reported = 0
        """Actors, in the last report."""
        self._report_due = math.inf
        """Without a change."""
        self._soon = math.inf
        """With one."""
        self._in_run = 0

    @property
    def actors(self) -> int:
        """In the whole run, as the learner said last."""
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
                self._prepared = self.player = None  # all that the relay has is of one epoch
            self._report_due = now
        if isinstance(message, Welcome | Acknowledgement):
            self._in_run = message.actors
        return super().handle(now, message, body)

    def hear(self, now: float, frame: bytes) -> tuple[list[Effect], Broadcast | None]:
        """A broadcast; what comes second is it, to be passed on, if it is of this run and epoch."""
        try:
            news = Broadcast.unpack(frame)
        except WireError as error:
            return self._warn(str(error)), None
        welcome = self.membership.welcome
        ours = welcome is not None and (news.run, news.epoch) == (run_mark(welcome.run), welcome.epoch)
        return self.news(now, news), news if ours else None

    def send_sum(self, now: float) -> list[Effect]:
        """If there is one, and the learner has answered enough of those before."""
        return self._contribute(now)

    def site_changed(self, now: float, actors: int) -> None:
        """So many actors are at the site now."""
        if actors != self._reported:
            self._report_due = min(self._report_due, max(now, self._soon))

    def say(self, text: str) -> None:
        """The learner's operator is told with the next heartbeat."""
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
