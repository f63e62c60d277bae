"""Runs a daemon in this thread, and beside it, in another thread, a script of what happens to it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


def interrupt() -> None:
    """Interrupts the daemon with SIGTERM, as an operator does."""
    os.kill(os.getpid(), signal.SIGTERM)


def beside(script: Callable[[], object], run: Callable[[], int]) -> int:
    """Runs a daemon in this thread with `script` beside it, and returns the daemon's exit code.

    If the script fails, it interrupts the daemon, and its error is raised at the end.
    """
    failures: list[BaseException] = []
    ended = threading.Event()

    def play() -> None:
        try:
            script()
        except BaseException as error:
            failures.append(error)
            if not ended.is_set():  # afterwards the signal would end the tests
                interrupt()

    thread = threading.Thread(target=play)
    thread.start()
    try:
        return run()
    finally:
        ended.set()
        thread.join()
        for failure in failures:
            raise failure
