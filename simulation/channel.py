"""One direction of a connection: what is sent arrives later, and in order, as with TCP, unless it is told otherwise."""

from collections.abc import Callable, Sequence
from random import Random

from simulation.event_queue import EventQueue
from simulation.settings import Link

PACKET_BYTES = 1448
RETRANSMIT_SECONDS = 0.2
"""Least time until a lost packet is sent again (RFC 6298 as Linux has it)."""
HEADER_BYTES = 60
"""Around each message, on the wire."""


class Line:
    """What bytes go through one after the other: a cable, or the port of a host."""

    def __init__(self, mbit: float, *, fair: bool = False) -> None:
        """mbit: in Mbit/s; 0: without a limit. fair: a message of one packet passes long ones, as it does where the
        kernel shares a port among connections (RFC 8290), and these wait for it instead."""
        self.limited = mbit > 0
        self._fair = fair
        self._seconds_per_byte = 8 / (1e6 * mbit) if mbit else 0.0
        self._free_at = 0.0

    def take(self, now: float, size: int) -> float:
        """When the last of so many bytes has gone through."""
        seconds = size * self._seconds_per_byte
        self._free_at = max(now, self._free_at) + seconds
        return now + seconds if self._fair and size <= PACKET_BYTES else self._free_at


class Channel:
    def __init__(self, queue: EventQueue, link: Link, lines: list[Line], rng: Random) -> None:
        """lines: that the bytes pass, at the same time."""
        self.under_way = 0
        """Messages."""
        self._queue = queue
        self.link = link
        self._lines = [line for line in lines if line.limited]
        self.rng = rng
        self._last = 0.0
        """When the newest message arrives."""

    def begin(self) -> None:
        """A new connection: what is sent on it waits for nothing that was sent on the last one."""
        self._last = self._queue.now

    def send(self, size: int, arrive: Callable[[], object]) -> None:
        """Calls `arrive` when a message of so many bytes has arrived: once, as a rule."""

        def come() -> None:
            self.under_way -= 1
            arrive()

        for time in self.arrivals(size):
            self._queue.at(time, come)

    def arrivals(self, size: int) -> Sequence[float]:
        """When a message of so many bytes that is sent now arrives: once, as a rule. Each is under way from now on."""
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
