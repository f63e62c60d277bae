"""Keeps a process about as small as the memory it uses, by giving back free memory that the C library keeps.

glibc before 2.38 seldom reuses a freed block that was allocated with an alignment, as torch allocates its arrays
(https://sourceware.org/bugzilla/show_bug.cgi?id=14581). An actor with pictures, whose network allocates and frees some
megabytes a hundred times a second, grew by as much each second. Blocks mapped by the kernel one by one
(M_MMAP_THRESHOLD) must be cleared each time, which costs a quarter of such an actor's frames; memory that is given back
here must be cleared only once in some seconds.
"""

import math

from common.host.process import release_memory, resident_bytes

LOOK_SECONDS = 5.0
"""Time between two looks at the memory."""
GROWN_BYTES = 2**26
"""Growth that is given back; less is not worth it, since memory must be cleared when it is needed again."""


class Heap:
    """The heap of this process; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._look_due = -math.inf
        self._needed = 0
        """Resident bytes after memory was last given back, or fewer if the process has shrunk since."""

    def look(self, now: float) -> None:
        """Give free memory back if the process has grown. Call it often: it costs nothing between two looks."""
        if now < self._look_due:
            return
        self._look_due = now + LOOK_SECONDS
        resident = resident_bytes()
        if resident > self._needed + GROWN_BYTES:
            release_memory()
            resident = self._needed = resident_bytes()
        self._needed = min(self._needed, resident)
