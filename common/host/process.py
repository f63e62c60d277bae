"""What the kernel grants this process: descriptors and memory."""

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
