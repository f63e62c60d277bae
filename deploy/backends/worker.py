"""A thread that takes a turn now and then: for what must not hold up the launcher's loop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from deploy.backoff import backoff


class Worker:
    """Calls `turn`, which returns the seconds until it wants to be called again; `wake` makes that at once."""

    def __init__(self, turn: Callable[[], float]) -> None:
        """Nothing is called before `start`."""
        self._turn = turn
        self._awake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins, if it has not yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="backend", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Something is to be done."""
        self._awake.set()

    def close(self, seconds: float, abort: Callable[[], None]) -> None:
        """Takes one last turn; if that is not over after so long, calls `abort`, which must make it end."""
        self._closing = True
        self._awake.set()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                abort()
                self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            closing = self._closing
            self._awake.clear()
            wait = self._turn()
            if closing:
                return
            self._awake.wait(None if wait == math.inf else max(0.0, wait))


class Pause:
    """How long to wait before trying again: longer after each failure."""

    def __init__(self) -> None:
        """No failure yet."""
        self._failures = 0
        self._until = -math.inf

    def failed(self) -> None:
        """Once more."""
        self._failures += 1
        self._until = time.monotonic() + backoff(self._failures)

    def worked(self) -> None:
        """All is well."""
        self._failures, self._until = 0, -math.inf

    @property
    def left(self) -> float:
        """Seconds until the next try; 0: now."""
        return max(0.0, self._until - time.monotonic())
