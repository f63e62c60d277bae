"""A peer's membership in a run: hello until welcomed, heartbeats, hello again when the learner is silent.

Pure: messages and time in, messages out. Used by actors, launchers and observers. A welcome makes a member of the
peer; a refusal as unknown, or silence for the welcome's `expiry_seconds`, makes it join again. What keeps a daemon out
(keys, another version) may be fixed at the other end at any time, so it says hello again for ever, with growing pauses.
"""

import math

from common.errors import A3cdError, RefusedError, UnavailableError
from common.host.backoff import Backoff
from common.wire.messages import AnyMessage, Heartbeat, Hello, Refused, Welcome
from common.wire.protocol import REFUSALS

HELLO_SECONDS = 1.0
"""Pause before an unanswered hello is repeated; doubled each time."""
SLOW_HELLO_SECONDS = 8.0
"""Longest time between two unanswered hellos."""
REFUSED_SECONDS = 60.0
"""Longest time between two hellos, or two connections, of a daemon that is refused."""
UNSENT_SECONDS = 0.05
"""Pause before a hello that could not be sent, for lack of a connection, is tried again; doubled up to 1 s."""
MAX_DRAIN = 64
"""Messages that a peer reads at a time."""
KEPT_OUT = "kept out: "
"""Begins the status that the service manager is given of a refused peer; `a3cd deploy` looks for it."""
FIRST_NOTICE_SECONDS = 5.0
"""Time without an answer before the operator is told; told again whenever it has doubled."""


class Membership:
    """State of one peer towards the learner; the first `hello` is due at once."""

    def __init__(self, hello: Hello, now: float, *, patient: bool = True) -> None:
        """patient: the peer tries again when it is refused; False for a command that a person waits for."""
        self.hello = hello
        self.welcome: Welcome | None = None
        """The last welcome, also while the peer joins again."""
        self.patient = patient
        self.obstacle = ""
        """What keeps this peer out, according to the learner or the connection; empty: nothing is known."""
        self._pause = HELLO_SECONDS
        self._unsent = Backoff(UNSENT_SECONDS, HELLO_SECONDS)
        self._heard = self._hello_due = now
        self._heartbeat_due = math.inf
        self._join(now)

    def handle(self, now: float, message: AnyMessage) -> None:
        """Take a message from the learner; raises RefusedError or UnavailableError if it refuses this peer for good."""
        self._heard = now
        match message:
            case Welcome():
                self.welcome = message
                self.member = True
                self._heartbeat_due = now
            case Refused():
                refusal = REFUSALS[message.code]
                if refusal.error is None:
                    self.lost(now)
                    return
                text = f"the learner refused this {self.hello.role}: {message.reason}"
                # A quarantined actor that was started again must not end once more: its host would look hopeless.
                if refusal.passes or (message.code == "quarantined" and self.welcome is None):
                    self.refused(now, text, refusal.error)
                else:
                    raise refusal.error(text)

    def refused(self, now: float, why: str, error: type[A3cdError] = RefusedError) -> None:
        """Note that this peer is kept out for now: by the learner, by keys, or since the learner is not understood.

        Raises `error` if the peer is not patient.
        """
        if not self.patient:
            raise error(why)
        if self.member and not self.obstacle:
            self._join(now)
        self.member = False
        self._hello_due = max(self._hello_due, now + HELLO_SECONDS)
        if why != self.obstacle:
            self.obstacle = why
            self._notice_due = now

    def alive(self, now: float) -> None:
        """Note that bytes move in either direction: a long message is under way on a slow link."""
        if self.member:
            self._heard = now

    def connected(self, now: float) -> None:
        """Note a new connection, on which the learner does not know this peer yet."""
        self._unsent.reset()
        self.lost(now)
        self._hello_due = now

    def lost(self, now: float) -> None:
        """Join again at once, since the learner has restarted, is silent, or does not know this peer."""
        if self.member:
            self._pause = self._pause if self.obstacle else HELLO_SECONDS
            self._join(now)

    def _join(self, now: float) -> None:
        self.member = False
        self._hello_due = now
        self._waiting_since = now
        self._notice_due = now + FIRST_NOTICE_SECONDS

    def tick(self, now: float, state: str = "", last_error: str = "") -> AnyMessage | None:
        """Return the hello or heartbeat that is due, if any; `state` and `last_error` go into the heartbeat."""
        if self.member and self.welcome and now - self._heard > self.welcome.expiry_seconds:
            self.lost(now)
        if not self.member:
            if now < self._hello_due:
                return None
            self._hello_due = now + self._pause
            self._pause = min(2 * self._pause, REFUSED_SECONDS if self.obstacle else SLOW_HELLO_SECONDS)
            return self.hello
        if self.welcome and now >= self._heartbeat_due:
            # Only now: a peer may find that it cannot take part when it has been welcomed.
            self._pause, self.obstacle = HELLO_SECONDS, ""
            self._heartbeat_due = now + self.welcome.heartbeat_seconds
            return Heartbeat(state=state, last_error=last_error)
        return None

    def rests(self, now: float) -> bool:
        """Return whether `tick` has nothing to do, at a fraction of its cost."""
        return (
            self.member
            and now < self._heartbeat_due
            and (self.welcome is None or now - self._heard <= self.welcome.expiry_seconds)
        )

    def unsent(self, now: float) -> None:
        """Note that the hello from `tick` could not be sent: it is due again soon."""
        if not self.member:
            self._pause = max(HELLO_SECONDS, self._pause / 2)
            self._hello_due = now + self._unsent.next()

    @property
    def deadline(self) -> float:
        return self._heartbeat_due if self.member else self._hello_due

    def waited(self, now: float) -> float:
        """Return the seconds for which this peer has not been a member; 0 if it is one."""
        return 0.0 if self.member else now - self._waiting_since

    def give_up(self, now: float, seconds: float) -> None:
        """Raise UnavailableError if the peer has waited longer than `seconds`; 0: never."""
        if 0 < seconds < self.waited(now):
            raise UnavailableError(
                f"no learner let this {self.hello.role} in for {seconds:g} s: {self.obstacle or 'no answer'}"
            )

    def notice(self, now: float) -> float | None:
        """Return the seconds waited for an answer whenever the operator should be told; else None."""
        if self.member or now < self._notice_due:
            return None
        waited = now - self._waiting_since
        self._notice_due = now + max(waited, FIRST_NOTICE_SECONDS)
        return waited
