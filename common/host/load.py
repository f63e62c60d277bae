"""How busy this host is, all its processes together: as cheap to know as two files of the kernel are to read."""

from pathlib import Path
from typing import NamedTuple

_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/meminfo")
_IDLE = slice(3, 5)
"""Idle, and waiting for a disk."""
_TIMES = slice(0, 8)
"""The two behind are of guests, and counted before."""


class Load(NamedTuple):
    processor: float
    """Part of the processors' time since the last look that was used, 0 to 1."""
    memory: int
    """Bytes in use, without what the kernel would give back."""
    memory_total: int


class LoadMeter:
    def __init__(self) -> None:
        self._times = (0, 0)

    def look(self) -> Load | None:
        """None where the system does not say; the first look is of the time since the host was started."""
        try:
            words = _STAT.read_bytes().partition(b"\n")[0].split()[1:]
            lines = (line.split() for line in _MEMORY.read_bytes().splitlines())
            table = {words[0]: 1024 * int(words[1]) for words in lines if len(words) > 1}
            times = [int(word) for word in words[_TIMES]]
            total, available = table[b"MemTotal:"], table[b"MemAvailable:"]
        except (OSError, ValueError, KeyError):
            return None
        (idle, all_), self._times = self._times, (sum(times[_IDLE]), sum(times))
        passed = self._times[1] - all_
        used = 1.0 - (self._times[0] - idle) / passed if passed > 0 else 0.0
        return Load(min(1.0, max(0.0, used)), max(0, total - available), total)
