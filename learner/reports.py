"""Reports on the state of the run for observers: one report serves all of them, however often they ask."""

import msgspec

from common.wire.messages import Status
from learner.effects import Effect, Send
from learner.peer import Peer
from learner.run import Run

STATUS_SECONDS = 0.25
"""Age from which on a report is made anew: with a thousand actors it takes milliseconds, and anybody may ask."""
ASKED_SECONDS = 0.05
"""An observer that asks again sooner gets no second answer."""


class Reports:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._made = 0.0
        self._status: Status | None = None
        """The last report."""

    def asked(self, now: float, routing_id: bytes, peer: Peer) -> list[Effect]:
        """Return the answer to an observer; none if it asks again so soon that it still has the previous one."""
        if now - peer.reported < ASKED_SECONDS:
            return []
        peer.reported = now
        if self._status is None or not 0 <= now - self._made < STATUS_SECONDS:
            self._status = self.fresh(now)
            self._made = now
        return [Send(routing_id, self._status)]

    def fresh(self, now: float) -> Status:
        """Return a report on the present state."""
        return Status(report=msgspec.to_builtins(self._run.status(now)))
