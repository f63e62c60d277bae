"""What the kernel grants this process: descriptors, memory, and priority on the processors."""

import contextlib
import ctypes
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MOST_DESCRIPTORS = 2**16
"""More descriptors than any learner needs; some systems grant a thousand million."""
DESCRIPTORS_UNKNOWN = 512
_STATUS = Path("/proc/self/statm")
_OPEN = Path("/proc/self/fd")
_GROUP = Path("/sys/fs/cgroup")
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_descriptor_limit() -> int:
    """Raise the limit of open descriptors as far as this process may (`ulimit -Hn`), and return it."""
    if resource is None:
        return DESCRIPTORS_UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def open_descriptors() -> int:
    """Return the number of open descriptors; 0 if the system does not say."""
    try:
        return len(os.listdir(_OPEN))  # noqa: PTH208
    except OSError:
        return 0


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not say."""
    try:
        return int(_STATUS.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_way(niceness: int) -> None:
    """Let other processes go first on the processors: the more so, the higher the niceness (0 to 19).

    If Linux weighs whole sessions against each other (autogroups, sched(7)), niceness counts only within a session.
    Each child of `a3cd train` and of a launcher has a session of its own, so the niceness of that is raised as well.
    """
    if not niceness or not hasattr(os, "nice"):
        return
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(niceness))


def release_memory() -> None:
    """Give freed memory back to the system, if the C library can (glibc); otherwise it counts as in use."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def available_bytes() -> int:
    """Return the bytes of memory that this machine, or the container of this process, still has.

    What only caches files counts as free: the system takes it back when memory is needed.
    """
    import psutil  # imported here, since an actor does not need it

    try:
        used = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        cached = sum(int(used.get(name, 0)) for name in ("active_file", "inactive_file", "slab_reclaimable"))
        left = int((_GROUP / "memory.max").read_text()) - int((_GROUP / "memory.current").read_text()) + cached
    except (OSError, ValueError):  # "max": no limit
        return int(psutil.virtual_memory().available)
    return max(0, min(left, int(psutil.virtual_memory().available)))
