"""What the kernel grants this process: descriptors, memory, and its turn on the processor."""

import contextlib
import ctypes
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MOST_DESCRIPTORS = 2**16
"""More than any learner needs; some systems grant a thousand million."""
DESCRIPTORS_UNKNOWN = 512
_STATUS = Path("/proc/self/statm")
_OPEN = Path("/proc/self/fd")
_GROUP = Path("/sys/fs/cgroup")
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_descriptor_limit() -> int:
    """Takes as many descriptors as this process may have (`ulimit -Hn`), and returns how many."""
    if resource is None:
        return DESCRIPTORS_UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def open_descriptors() -> int:
    """How many are in use; 0 where the system does not say."""
    try:
        return len(os.listdir(_OPEN))  # noqa: PTH208
    except OSError:
        return 0


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        return int(_STATUS.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_way(niceness: int) -> None:
    """From now on others come first on the processors: the more so, the higher the niceness (0 to 19).

    Where Linux weighs whole sessions against each other (autogroups, sched(7)), niceness counts inside a session alone.
    Each child of `a3cd train` and of a launcher has one of its own, which therefore gives way as well.
    """
    if not niceness or not hasattr(os, "nice"):
        return
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(niceness))


def release_memory() -> None:
    """Gives freed memory back to the system, where the C library can (glibc): as its own, it would count as in use."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def available_bytes() -> int:
    """Memory that this machine, or the container that this process runs in, still has."""
    import psutil  # an actor has no need of it

    try:
        left = int((_GROUP / "memory.max").read_text()) - int((_GROUP / "memory.current").read_text())
    except (OSError, ValueError):  # "max": no limit
        return int(psutil.virtual_memory().available)
    return max(0, min(left, int(psutil.virtual_memory().available)))
