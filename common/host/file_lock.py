"""Locking an open file against other processes; the kernel frees the lock when the process ends, however it ends."""

import time
from pathlib import Path
from typing import IO, Any

from common.errors import ConfigurationError
from common.host import plain_file

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there.
    fcntl = None  # type: ignore[assignment]

TRIES, PAUSE_SECONDS = 5, 0.02
"""Of `lock`, before it takes a lock for held: `is_held` has it for a moment."""


def lock(file: IO[Any], *, wait: bool) -> None:
    """Lock the file until it is closed; raises BlockingIOError if another process holds it and `wait` is false."""
    if fcntl is None:
        return
    for left in range(0 if wait else TRIES - 1, -1, -1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not left:
                raise
            time.sleep(PAUSE_SECONDS)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of the file `path`; False if that cannot be known."""
    try:
        with plain_file.open_to_read(path) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others who ask at the same time hold nothing
    except BlockingIOError:
        return True
    except (OSError, ConfigurationError):
        return False
    return False
