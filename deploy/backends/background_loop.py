"""Calls a backend on a thread of its own: a tool may take seconds, and the launcher's loop must not wait for it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from deploy.backends.base import Ended, Observation, Place, Requests
from deploy.backends.runner import ToolError

CLOSE_SECONDS = 5.0
"""Time for the last requests when the launcher ends."""
MOST_SAID = 20
"""Most different errors whose tracebacks are logged."""
_log = logging.getLogger(__name__)


def backoff(failures: int, first: float = 1.0) -> float:
    """Returns the seconds to wait after `failures` failures in a row: `first` times 1, 2, 4, 8, ..., at most 30."""
    return min(first * 2.0 ** min(failures - 1, 16), 30.0)  # 16: a larger exponent would overflow in the end


@dataclass(frozen=True)
class Report:
    seen: Observation | None
    """None: the backend could not be observed."""
    ended: tuple[Ended, ...] = ()
    problem: str = ""
    undone: bool = False
    """Whether a request before it failed."""


class BackgroundLoop:
    """Works in turns. In each it carries out requests, observes, reports, and waits for new requests as the answer.

    So a report always shows the effect of the requests before it, and a request is always decided on a fresh
    observation: a start whose answer got lost is never made twice.
    """

    def __init__(self, place: Place, reported: Callable[[], None] = lambda: None) -> None:
        """`reported`: called on the loop's thread when there is a report."""
        self.place = place
        self._reported = reported
        self._backend = place.backend
        self._backend.changed = self.wake
        self._slots = frozenset(range(place.slots))
        self._reports: SimpleQueue[Report] = SimpleQueue()
        self._answers: SimpleQueue[Requests | None] = SimpleQueue()
        self._awake = threading.Event()
        self._closing = False
        self._known: frozenset[int] = frozenset()
        """Slots of actors that were seen or started, and whose end has not been reported."""
        self._failures = 0
        """Turns in a row in which something failed."""
        self._said: set[str] = set()
        """Errors other than ToolError that have been logged with their traceback."""
        self._thread = threading.Thread(target=self._run, name="backend", daemon=True)
        self._thread.start()

    def report(self) -> Report | None:
        """Returns the report that waits for an answer, once; None if there is none."""
        try:
            return self._reports.get_nowait()
        except Empty:
            if not self._thread.is_alive():
                raise RuntimeError("the backend's thread ended") from None
            return None

    def answer(self, requests: Requests) -> None:
        """Answers the report: the next turn carries out `requests`, at once if there are any."""
        self._answers.put(requests)

    def wake(self) -> None:
        """Asks for a report now instead of after the interval."""
        self._awake.set()

    def leave(self) -> None:
        """Lets the thread end after the requests that were already handed over."""
        self._closing = True
        self._answers.put(None)
        self.wake()

    def close(self, seconds: float) -> None:
        """Closes the backend, after `leave`; a tool that still runs after `seconds` is left alone."""
        self._thread.join(max(0.0, seconds))
        self._backend.close()

    def _run(self) -> None:
        requests: Requests | None = Requests()
        while requests is not None:
            self._awake.clear()
            self._reports.put(self._turn(requests))
            self._reported()
            requests = self._answers.get()
            if requests is not None and not requests.slots:
                self._awake.wait(backoff(self._failures) if self._failures else self._backend.interval)
                if self._closing:
                    return

    def _turn(self, requests: Requests) -> Report:
        problems: list[str] = []
        seen, undone = None, False
        ended: tuple[Ended, ...] = ()
        try:
            self._backend.request(requests)
            self._known |= requests.start
        except Exception as error:
            undone = True
            problems.append(self._problem(error))
        try:
            if not self._closing:
                observed = self._backend.observe()
                alive = observed.alive & self._slots
                ended = tuple(self._exit_status(slot) for slot in sorted(self._known - alive))
                seen = replace(observed, alive=alive, starting=observed.starting & self._slots)
                self._known = alive
                if surplus := observed.alive - self._slots:  # an earlier launcher with more slots started them
                    self._backend.stop(sorted(surplus))
        except Exception as error:
            problems.append(self._problem(error))
        self._failures = self._failures + 1 if problems else 0
        if seen is not None and seen.note:
            problems.append(seen.note)
        return Report(seen, ended, "; ".join(dict.fromkeys(problems)), undone)

    def _exit_status(self, slot: int) -> Ended:
        try:
            return self._backend.exit_status(slot)
        except Exception as error:
            return Ended(slot, 1, self._problem(error))

    def _problem(self, error: Exception) -> str:
        """The error in one line. The traceback of any error but a ToolError is logged, once."""
        if isinstance(error, ToolError):
            return str(error)
        text = f"{type(self._backend).__name__} failed: {type(error).__name__}: {str(error) or 'no message'}"
        if text not in self._said and len(self._said) < MOST_SAID:
            self._said.add(text)
            _log.error(text, exc_info=error)
        return text


def close_all(loops: Sequence[BackgroundLoop]) -> None:
    """Closes all of them at the same time."""
    for loop in loops:
        loop.leave()
    until = time.monotonic() + CLOSE_SECONDS
    for loop in loops:
        loop.close(until - time.monotonic())
