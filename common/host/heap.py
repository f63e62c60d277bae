"""Keeps a process about as small as what it uses: gives back what the C library keeps though it is free.

glibc before 2.38 seldom finds a freed block again that was asked for with an alignment, as torch asks for its arrays
(https://sourceware.org/bugzilla/show_bug.cgi?id=14581): an actor of pictures, whose network takes and frees some
megabytes a hundred times a second, grew by as much a second. Blocks of their own from the kernel (M_MMAP_THRESHOLD)
must be cleared each time, which takes a quarter of such an actor's frames; what is given back here is cleared once in
some seconds.
"""

import math

from common.host.process import release_memory, resident_bytes

LOOK_SECONDS = 5.0
"""Between two looks at the memory."""
GROWN_BYTES = 2**26
"""Growth that is looked after: what is given back must be cleared again where it is needed, which takes a while."""


class Heap:
    """Of this process; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._look_due = -math.inf
        self._needed = 0
        """Bytes that were left when memory was given back last, or fewer."""

    def look(self, now: float) -> None:
        """Gives free memory back if the process has grown; to be called often, it costs nothing in between."""
        if now < self._look_due:
            return
        self._look_due = now + LOOK_SECONDS
        resident = resident_bytes()
        if resident > self._needed + GROWN_BYTES:
            release_memory()
            resident = self._needed = resident_bytes()
        self._needed = min(self._needed, resident)
