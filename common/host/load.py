"""How busy this host is, all its processes together; measuring it means reading two files of the kernel."""

from pathlib import Path
from typing import NamedTuple

_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/meminfo")
_IDLE = slice(3, 5)
"""Fields of the first line of /proc/stat: idle time, and waiting for a disk."""
_TIMES = slice(0, 8)
"""All times; the two fields after these are times of guests, which are included in others."""


class Load(NamedTuple):
    processor: float
    """Fraction of the processors' time since the last look that was used, 0 to 1."""
    memory: int
    """Bytes in use, without what the kernel would give back."""
    memory_total: int


class LoadMeter:
    def __init__(self) -> None:
        self._times = (0, 0)

    def look(self) -> Load | None:
        """Return the load since the last look, at first since the host's start; None if the system does not say."""
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
