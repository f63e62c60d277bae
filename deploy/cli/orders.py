"""An order to a learner, from any host: an operator joins the run, sends one order, and waits for the answer."""

import time

from common.errors import UnavailableError
from common.host.security.access import LearnerEndpoint
from common.wire.client import unanswered
from common.wire.messages import Halt, Save, Saved, Scale, Scaled, Stop
from deploy.cli.guest import Guest

ANSWER_SECONDS = 90.0
"""Time for a checkpoint to reach the disk of the learner's host; a learner that ends gives it a minute."""


def give(access: LearnerEndpoint, order: Halt | Save | Scale, timeout: float) -> Saved | Scaled:
    """Send an order, and return the learner's answer.

    The order is sent at most once, since another learner may be there after this one. Raises RefusedError if the
    learner does not take it, and UnavailableError if it does not answer: it has `timeout` seconds to let this operator
    in, and then ANSWER_SECONDS.
    """
    with _Operator(access, order) as operator:
        return operator.run(timeout)


class _Operator(Guest):
    def __init__(self, access: LearnerEndpoint, order: Halt | Save | Scale) -> None:
        super().__init__("operator", access)
        self._where, self._order = access.address, order
        self._said = False
        self._end = ""
        """Why the learner ends, as it says."""

    def run(self, timeout: float) -> Saved | Scaled:
        until = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            answer = self._take(now)
            if answer is not None:
                return answer
            if self._said and not (self._link.connected and self.membership.member):
                raise UnavailableError(f"the learner at {self._where} has gone and said nothing: {self._doubt}")
            if self._speak(now):
                until = now + ANSWER_SECONDS
            if now >= until:
                raise self._silence(timeout)
            self._wait(now, min(until, self.membership.deadline))

    def _take(self, now: float) -> Saved | Scaled | None:
        for message in self._hear(now):
            if isinstance(message, Saved | Scaled) and self._said:
                return message
            if isinstance(message, Stop):
                self._end = message.reason
                if not self._said:
                    raise UnavailableError(f"the learner at {self._where} ends: {self._end}")
        return None

    def _speak(self, now: float) -> bool:
        """Sends what is due; returns whether the order was sent just now."""
        self._keep(now)
        if self._said or not self.membership.member:
            return False
        self._said = self._link.send(self._order)
        return self._said

    @property
    def _doubt(self) -> str:
        why = f"it ended ({self._end}); " if self._end else ""
        return f"{why}whether it did what it was told, its log and the run folder say"

    def _silence(self, timeout: float) -> UnavailableError:
        if not self._said:
            return unanswered(self._where, timeout)
        return UnavailableError(
            f"the learner at {self._where} has not answered for {ANSWER_SECONDS:g} s: {self._doubt}"
        )
