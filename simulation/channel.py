"""One direction of a connection: messages arrive later and in order, as with TCP, unless the link says otherwise."""

from collections.abc import Callable, Sequence
from random import Random

from simulation.event_queue import EventQueue
from simulation.settings import Link

PACKET_BYTES = 1448
RETRANSMIT_SECONDS = 0.2
"""Least time until a lost packet is sent again (RFC 6298, with Linux's minimum)."""
HEADER_BYTES = 60
"""Bytes added to each message on the wire."""


class Line:
    """A cable, or the port of a host, which bytes pass one after the other."""

    def __init__(self, mbit: float, *, fair: bool = False) -> None:
        """mbit: bandwidth in Mbit/s; 0: without a limit. fair: a message of one packet overtakes long ones, which wait
        for it instead, as where the kernel shares a port among connections (RFC 8290)."""
        self.limited = mbit > 0
        self._fair = fair
        self._seconds_per_byte = 8 / (1e6 * mbit) if mbit else 0.0
        self._free_at = 0.0

    def take(self, now: float, size: int) -> float:
        """Returns the time when the last of `size` bytes has passed."""
        seconds = size * self._seconds_per_byte
        self._free_at = max(now, self._free_at) + seconds
        return now + seconds if self._fair and size <= PACKET_BYTES else self._free_at


class Channel:
    def __init__(self, queue: EventQueue, link: Link, lines: list[Line], rng: Random) -> None:
        """lines: the lines that the bytes pass, all at the same time."""
        self.under_way = 0
        """Number of messages under way."""
        self._queue = queue
        self.link = link
        self._lines = [line for line in lines if line.limited]
        self.rng = rng
        self._last = 0.0
        """When the newest message that keeps its order arrives."""

    def begin(self) -> None:
        """Begins a new connection, whose messages do not wait for those of the last one."""
        self._last = self._queue.now

    def send(self, size: int, arrive: Callable[[], object]) -> None:
        """Sends a message of `size` bytes, and calls `arrive` each time it arrives: once, as a rule."""

        def come() -> None:
            self.under_way -= 1
            arrive()

        for time in self.arrivals(size):
            self._queue.at(time, come)

    def arrivals(self, size: int) -> Sequence[float]:
        """Returns when a message of `size` bytes sent now arrives: once, unless the link drops or duplicates it.

        Each arrival counts as under way from now on.
        """
        link, rng = self.link, self.rng
        now = passed = self._queue.now
        for line in self._lines:
            passed = max(passed, line.take(now, size + HEADER_BYTES))
        if link.drop and rng.random() < link.drop:
            return ()
        delay = link.delay + (link.jitter * rng.random() if link.jitter else 0.0)
        if link.loss:
            packets = 1 + size // PACKET_BYTES
            lost = rng.random() < 1 - (1 - link.loss) ** packets
            delay += max(RETRANSMIT_SECONDS, 2 * link.delay) if lost else 0.0
        time = passed + delay
        if not (link.reorder and rng.random() < link.reorder):
            time = self._last = max(time, self._last)
        if link.duplicate and rng.random() < link.duplicate:
            self.under_way += 2
            return time, time + delay * rng.random()
        self.under_way += 1
        return (time,)
