"""Children that end with their parent, even if it was killed: a pipe that only the parent keeps open.

The parent never writes. When it ends, the system closes its end of the pipe, and every child reads end-of-file from
its standard input.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from common.errors import EXIT_SIGTERM

GRACE_SECONDS = 5.0


class Lifeline:
    """The parent's side, one for all its children: each gets `child_end` as its standard input."""

    def __init__(self) -> None:
        self.child_end, self._held = os.pipe()

    def close(self) -> None:
        """Makes the children end that are still running."""
        os.close(self._held)
        os.close(self.child_end)


def terminate() -> None:
    """Send SIGTERM to this process; unlike `os.kill`, its handler also runs on Windows."""
    signal.raise_signal(signal.SIGTERM)


def watch(
    on_lost: Callable[[], None] = terminate, grace_seconds: float = GRACE_SECONDS, descriptor: int = 0
) -> threading.Thread:
    """The child's side: a daemon thread that calls `on_lost` when the parent has ended.

    `grace_seconds` later it ends the process with exit code 143, unless C code never releases the interpreter's lock.
    """
    thread = threading.Thread(target=_wait, args=(on_lost, grace_seconds, descriptor), name="lifeline", daemon=True)
    thread.start()
    return thread


def _wait(on_lost: Callable[[], None], grace_seconds: float, descriptor: int) -> None:
    # Not sys.stdin: a thread blocked in its buffer makes the interpreter abort when it shuts down.
    with suppress(OSError):
        while os.read(descriptor, 1024):
            pass
    try:
        on_lost()
    finally:
        time.sleep(grace_seconds)
        os._exit(EXIT_SIGTERM)
