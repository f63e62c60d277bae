"""Actors started by any program: it is told how many there are to be, and sees to the rest."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from deploy.backends.base import Backend, Condition, Ended
from deploy.backends.client import Client, ClientError
from deploy.backends.worker import Pause, Worker

COMMAND_SECONDS = 60.0
COUNT, LEARNER = "{count}", "{learner}"
_LAST_SECONDS = 5.0


class CommandBackend(Backend):
    """Runs the program at every change of the wish, without a shell; again, later each time, while it fails.

    It cannot see the actors: what the program took on counts as running.
    """

    outlives = True

    def __init__(self, command: Sequence[str], learner: str, *, client: Client | None = None) -> None:
        """In each word of `command`, {count} and {learner} are replaced."""
        self._command = [word.replace(LEARNER, learner) for word in command]
        self._client = client or Client(COMMAND_SECONDS)
        self._worker = Worker(self._turn)
        self._pause = Pause()
        self._lock = threading.Lock()
        self._dirty = False
        self._wish: int | None = None
        self._done: int | None = None
        """The count that the program took on last; None: unknown, it may have failed halfway."""
        self._running: set[int] = set()
        self._starting: set[int] = set()
        self._leaving: set[int] = set()
        self._ended: list[Ended] = []
        self._trouble = ""

    def start(self, slot: int) -> None:
        """Starting until the program has taken it on."""
        with self._lock:
            self._running.add(slot)
            self._starting.add(slot)
            self._dirty = True

    def stop(self, slot: int, kill: bool = False) -> None:  # noqa: ARG002
        """On its way out until the program has taken it on."""
        with self._lock:
            if slot in self._running:
                self._leaving.add(slot)
                self._dirty = True

    def wish(self, actors: int) -> None:
        """What the program is told."""
        with self._lock:
            self._dirty = self._dirty or actors != self._wish
            self._wish = actors

    def poll(self) -> list[Ended]:
        """Those that the program has let go; what came since the last call is told to the program together."""
        self._worker.start()
        with self._lock:
            ended, self._ended = self._ended, []
            self._running -= {end.slot for end in ended}
            dirty, self._dirty = self._dirty, False
        if dirty:
            self._worker.wake()
        return ended

    @property
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""
        with self._lock:
            return set(self._running)

    @property
    def condition(self) -> Condition:
        """The program's last failure, until it works again."""
        with self._lock:
            return Condition(self._trouble, frozenset(self._starting))

    def close(self) -> None:
        """Tells the program the last wish; the actors stay."""
        self._worker.close(_LAST_SECONDS, self._client.abort)

    def _turn(self) -> float:
        with self._lock:
            count, done = self._wish, self._done
            starting, leaving = set(self._starting), set(self._leaving)
        if count is None:
            return math.inf
        if count != done:
            if self._pause.left:
                return self._pause.left
            try:
                self._done = None
                self._client.call(*(word.replace(COUNT, str(count)) for word in self._command)).check()
            except ClientError as error:
                self._pause.failed()
                with self._lock:
                    self._trouble = str(error)
                return self._pause.left
        self._pause.worked()
        with self._lock:
            self._done, self._trouble = count, ""
            self._starting -= starting
            self._leaving -= leaving
            self._ended += [Ended(slot, 0) for slot in sorted(leaving)]
        return math.inf if self._wish == count else 0.0
