"""Seconds since this process was started, as somebody with a stop-watch beside it counts them."""

import os
import sys
import time
from pathlib import Path


def since_start() -> float:
    """Seconds since this process was started; right to 20 ms on Linux.

    On Linux both readings are in seconds since boot. psutil would add the time of boot (btime), which is in whole
    seconds, and wrong by as much as the wall clock has been set since.
    """
    if sys.platform != "linux":
        import psutil  # needed only here

        return time.time() - psutil.Process().create_time()
    stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks(stat) / os.sysconf("SC_CLK_TCK")


def start_ticks(stat: str) -> int:
    """The 22nd field of /proc/PID/stat, in clock ticks since boot; the second, a name, may hold spaces and brackets."""
    return int(stat.rpartition(")")[2].split()[22 - 3])
