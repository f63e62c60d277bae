"""A peer's membership in a run: hello until welcomed, heartbeats, hello again when the learner is silent.

Pure: messages and time in, messages out. Used by actors, launchers and observers. A welcome makes a member of the
peer; a refusal as unknown, or silence for the welcome's `expiry_seconds`, makes it join again.
"""

import math

from common.wire.messages import AnyMessage, Heartbeat, Hello, Refused, Welcome
from common.wire.protocol import REFUSALS

HELLO_SECONDS = 1.0
"""Between two hellos that were not answered."""
UNSENT_SECONDS = 0.05
"""Before a hello that could not be sent, because there was no connection, is tried again."""
FIRST_NOTICE_SECONDS = 5.0
"""Without an answer before the operator is told; told again after each doubling."""


class Membership:
    """State of one peer towards the learner; the first `hello` is due at once."""

    def __init__(self, hello: Hello, now: float) -> None:
        self.hello = hello
        self.welcome: Welcome | None = None
        """The last one, also while joining again."""
        self._heard = now
        self._heartbeat_due = math.inf
        self._join(now)

    def handle(self, now: float, message: AnyMessage) -> None:
        """Any message from the learner; raises RefusedError or UnavailableError if it refuses this peer for good."""
        self._heard = now
        match message:
            case Welcome():
                self.welcome = message
                self.member = True
                self._heartbeat_due = now
            case Refused():
                error = REFUSALS[message.code].error
                if error is not None:
                    raise error(f"the learner refused this {self.hello.role}: {message.reason}")
                self.lost(now)

    def lost(self, now: float) -> None:
        """The learner has restarted: join again at once."""
        if self.member:
            self._join(now)

    def _join(self, now: float) -> None:
        self.member = False
        self._hello_due = now
        self._waiting_since = now
        self._notice_due = now + FIRST_NOTICE_SECONDS

    def tick(self, now: float, state: str = "", last_error: str = "") -> AnyMessage | None:
        """The hello or heartbeat that is due, if any; `state` and `last_error` go into the heartbeat."""
        if self.member and self.welcome and now - self._heard > self.welcome.expiry_seconds:
            self.lost(now)
        if not self.member:
            if now < self._hello_due:
                return None
            self._hello_due = now + HELLO_SECONDS
            return self.hello
        if self.welcome and now >= self._heartbeat_due:
            self._heartbeat_due = now + self.welcome.heartbeat_seconds
            return Heartbeat(state=state, last_error=last_error)
        return None

    def unsent(self, now: float) -> None:
        """The hello from `tick` could not be sent: it is due again soon."""
        if not self.member:
            self._hello_due = now + UNSENT_SECONDS

    @property
    def deadline(self) -> float:
        return self._heartbeat_due if self.member else self._hello_due

    def notice(self, now: float) -> float | None:
        """Seconds waited for an answer, each time the operator should be told; else None."""
        if self.member or now < self._notice_due:
            return None
        waited = now - self._waiting_since
        self._notice_due = now + waited
        return waited
