"""A peer that asks a learner for the status of its run."""

import time
from collections.abc import Callable, Generator
from contextlib import closing

import msgspec

from common.errors import RefusedError
from common.host.security.access import LearnerEndpoint
from common.run.status import RunStatus
from common.wire.client import unanswered
from common.wire.messages import Inspect, Status, Stop
from deploy.cli.guest import Guest

ASK_SECONDS = 0.5
"""Time between two questions."""
LOST_SECONDS = 5.0
"""After a question was unanswered for this long, the observer joins again: the learner has probably restarted."""
LOOK_SECONDS = 0.2
"""Longest wait of `watch` before it looks at the clock again."""


class Observer(Guest):
    """Asks every `ask_seconds`. The learner may be absent, and may come back."""

    def __init__(self, access: LearnerEndpoint, ask_seconds: float = ASK_SECONDS) -> None:
        super().__init__("observer", access)
        self._ask_seconds = ask_seconds
        self._ask_due = time.monotonic()
        self._asked: float | None = None
        """When the oldest unanswered question was asked."""
        self.ended: Stop | None = None
        """The learner's stop message; None again once it is back."""

    def next(self, seconds: float) -> RunStatus | None:
        """The next status; None if none comes within `seconds`. Raises RefusedError (another protocol)."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            status = self._take(now)
            if status is not None:
                return status
            self._speak(now)
            if now >= until:
                return None
            due = self.membership.deadline
            if self.membership.member:
                due = min(due, self._ask_due)
            self._wait(now, min(until, due))

    def _take(self, now: float) -> RunStatus | None:
        newest: Status | None = None
        for message in self._hear(now):
            if isinstance(message, Status):
                newest, self.ended = message, None
            elif isinstance(message, Stop):
                self.ended = message
        if newest is None:
            return None
        self._asked = None
        try:
            return msgspec.convert(newest.report, RunStatus)
        except msgspec.ValidationError as error:
            text = f"the learner's report cannot be read ({error}): install the same a3cd on both ends"
            raise RefusedError(text) from None

    def _speak(self, now: float) -> None:
        if self.membership.member and self._asked is not None and now - self._asked > LOST_SECONDS:
            self.membership.lost(now)
            self._asked = None
        self._keep(now, "watching")
        if self.membership.member and now >= self._ask_due:
            self._ask_due = now + self._ask_seconds
            self._asked = now if self._asked is None else self._asked
            self._link.send(Inspect())


def fetch(access: LearnerEndpoint, timeout: float, say: Callable[[str], None]) -> RunStatus:
    """The status of the run at `access`: the first one of `watch`; raises as `watch`."""
    with closing(watch(access, timeout, say)) as statuses:
        return next(statuses)


def watch(access: LearnerEndpoint, timeout: float, say: Callable[[str], None]) -> Generator[RunStatus]:
    """Every status until the run is over; `say` takes lines about a silent learner and the end of the run.

    Raises UnavailableError when there is no first answer for `timeout` seconds; later, a silent learner is waited for.
    """
    until = time.monotonic() + timeout
    answered = False
    with Observer(access) as observer:
        while not answered or observer.ended is None or not observer.ended.final:
            status = observer.next(min(LOOK_SECONDS, timeout))
            if status is not None:
                answered = True
                yield status
            elif not answered and time.monotonic() >= until:
                raise unanswered(access.address, timeout)
            waited = observer.membership.notice(time.monotonic())
            if waited is not None:
                say(f"no learner answers at {access.address} for {waited:.0f} s: waiting")
        say(f"the run is over: {observer.ended.reason}")
