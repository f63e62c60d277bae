"""Makes children end with their parent, even if it is killed: by a pipe that only the parent keeps open.

The parent never writes. When it ends, the system closes its end of the pipe, and every child reads end-of-file from
its standard input.
"""

import os
import signal
import threading
import time
from contextlib import suppress

from common.errors import EXIT_SIGTERM

GRACE_SECONDS = 5.0


class Lifeline:
    """The parent's side, one for all its children: each gets `child_end` as its standard input."""

    def __init__(self) -> None:
        self.child_end, self._held = os.pipe()

    def close(self) -> None:
        """End the children that are still running."""
        os.close(self._held)
        os.close(self.child_end)


def watch() -> None:
    """Watch from the child's side: ask this process to stop (SIGTERM) when the parent has ended.

    `GRACE_SECONDS` later the process ends with exit code 143, unless C code never releases the interpreter's lock.
    """
    threading.Thread(target=_wait, name="lifeline", daemon=True).start()


def _wait() -> None:
    # Not sys.stdin: a thread blocked in its buffer makes the interpreter abort when it shuts down.
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    try:
        signal.raise_signal(signal.SIGTERM)  # unlike os.kill, this also runs the handler on Windows
    finally:
        time.sleep(GRACE_SECONDS)
        os._exit(EXIT_SIGTERM)
