"""A child that ends with its parent, whatever ended the parent: a pipe that only the parent can keep open.

The parent never writes. When it dies, even by SIGKILL, the system closes its end and every child reads the end of
its standard input.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from common.errors import EXIT_SIGTERM

GRACE_SECONDS = 5.0


class Lifeline:
    """The parent's side: one for all its children."""

    def __init__(self) -> None:
        """Neither end is inherited; a child gets `child_end` as its standard input, and nothing else."""
        self.child_end, self._held = os.pipe()

    def close(self) -> None:
        """Lets go: children that still live are told to end."""
        os.close(self._held)
        os.close(self.child_end)


def terminate() -> None:
    """Stops this process as SIGTERM from outside would; unlike `os.kill`, politely on Windows too."""
    signal.raise_signal(signal.SIGTERM)


def watch(
    on_lost: Callable[[], None] = terminate, grace_seconds: float = GRACE_SECONDS, descriptor: int = 0
) -> threading.Thread:
    """The child's side: a daemon thread that calls `on_lost` when the parent is gone, and then ends the process.

    `grace_seconds` after `on_lost` the process ends with exit code 143, whatever its main thread is caught in; only
    C code that never gives up the interpreter's lock is out of reach.
    """
    thread = threading.Thread(target=_wait, args=(on_lost, grace_seconds, descriptor), name="lifeline", daemon=True)
    thread.start()
    return thread


def _wait(on_lost: Callable[[], None], grace_seconds: float, descriptor: int) -> None:
    # Not sys.stdin: a thread blocked in its buffer makes the interpreter abort when it shuts down.
    try:
        while os.read(descriptor, 1024):
            pass
    except OSError:
        pass
    try:
        on_lost()
    finally:
        time.sleep(grace_seconds)
        os._exit(EXIT_SIGTERM)
