"""A peer's side of belonging to a run: hello until welcomed, heartbeats, noticing that the learner fell silent.

Pure: messages and time in, messages out. Actor, launcher and observer all stand on it.

    joining --welcome--> member --silence, refused(unknown), lost()--> joining
       any  --refused(anything else)--> RefusedError (set aside: UnavailableError)
"""

from __future__ import annotations

import math

from common.errors import RefusedError, UnavailableError
from common.wire.messages import AnyMessage, Heartbeat, Hello, Refused, Welcome

HELLO_SECONDS = 1.0
"""Between two hellos that nobody answered."""
UNSENT_SECONDS = 0.05
"""Before a hello that could not leave, for want of a connection, is tried again."""
FIRST_NOTICE_SECONDS = 5.0
"""Unanswered for so long: tell the operator; again after each doubling."""


class Membership:
    """State of one peer towards the learner."""

    def __init__(self, hello: Hello, now: float) -> None:
        """`hello` is what this peer says of itself; the first is due at once."""
        self.hello = hello
        self.welcome: Welcome | None = None
        self.member = False
        self._heard = now
        self._hello_due = now
        self._heartbeat_due = math.inf
        self._waiting_since = now
        self._notice_due = now + FIRST_NOTICE_SECONDS

    def handle(self, now: float, message: AnyMessage) -> None:
        """Takes note of any message from the learner; raises when it is a refusal for good."""
        self._heard = now
        match message:
            case Welcome():
                self.welcome, self.member = message, True
                self._heartbeat_due = now
            case Refused(code="unknown"):
                self.lost(now)
            case Refused(code="set-aside"):
                raise UnavailableError(f"the learner set this {self.hello.role} aside: {message.reason}")
            case Refused():
                raise RefusedError(f"the learner refused this {self.hello.role}: {message.reason}")
            case _:
                pass

    def lost(self, now: float) -> None:
        """Not a member any more (the learner restarted, or said so): join again at once."""
        self.member = False
        self._hello_due = now
        self._waiting_since = now
        self._notice_due = now + FIRST_NOTICE_SECONDS

    def tick(self, now: float, state: str = "", trouble: str = "") -> AnyMessage | None:
        """The hello or heartbeat that is due, if any; `state` and `trouble` go into the heartbeat."""
        if self.member and self.welcome and now - self._heard > self.welcome.expiry_seconds:
            self.lost(now)
        if not self.member:
            if now < self._hello_due:
                return None
            self._hello_due = now + HELLO_SECONDS
            return self.hello
        if self.welcome and now >= self._heartbeat_due:
            self._heartbeat_due = now + self.welcome.heartbeat_seconds
            return Heartbeat(state=state, trouble=trouble)
        return None

    def unsent(self, now: float) -> None:
        """The hello that `tick` gave did not leave: it is due again soon."""
        if not self.member:
            self._hello_due = now + UNSENT_SECONDS

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        return self._heartbeat_due if self.member else self._hello_due

    def notice(self, now: float) -> float | None:
        """Seconds waited without an answer, whenever it is time to tell the operator."""
        if self.member or now < self._notice_due:
            return None
        waited = now - self._waiting_since
        self._notice_due = now + waited
        return waited
