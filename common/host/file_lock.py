"""Locking an open file against other processes; the kernel frees the lock when the process ends, however it ends."""

from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there.
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[Any], *, wait: bool) -> None:
    """Lock the file until it is closed; raises BlockingIOError if another process holds it and `wait` is false."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of the file `path`; False if that cannot be known."""
    try:
        with path.open("rb") as file:
            lock(file, wait=False)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
