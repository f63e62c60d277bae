"""Which pulls of weights are answered now, and which wait: weights for single peers keep to the egress budget."""

import math
from dataclasses import dataclass

from common.wire.messages import Pull
from learner.bounded_dict import BoundedDict
from learner.connections import Progress

UNDER_WAY_SECONDS = 30.0
"""How long whole weights may be under way after they were sent; no second copy goes to the same connection meanwhile.

The time starts anew while bytes move and not all have arrived, since a slow link takes minutes."""

REMEMBERED = 10_000
"""Most connections that are remembered: not each one that was cut off is reported as having left."""


@dataclass
class _Sent:
    """Whole weights that were sent to one peer."""

    at: float
    """When they were sent, or when more of their bytes last arrived."""
    version: int
    arrive_at: int
    """Count of acknowledged bytes at which all of them have arrived."""


class PullQueue:
    """The pulls that wait for their turn, one of each peer, and when the budget allows the next answer."""

    def __init__(self, egress_mbit: float) -> None:
        self._seconds_per_byte = 8 / (egress_mbit * 1e6)
        self._free = -math.inf
        """When the budget next has room for a body."""
        self._waiting: dict[bytes, Pull] = {}
        self._sent: BoundedDict[bytes, _Sent] = BoundedDict(REMEMBERED)
        """The last whole weights to each peer."""
        self._acknowledged: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def deadline(self) -> float:
        return self._free if self._waiting else math.inf

    def ask(self, now: float, routing_id: bytes, pull: Pull) -> None:
        """Queue a pull, unless the weights that it asks for are under way."""
        if not self.under_way(now, routing_id, pull):
            self._waiting[routing_id] = pull

    def under_way(self, now: float, routing_id: bytes, pull: Pull) -> bool:
        """Whether whole weights newer than those that the peer has were sent to it, and may still arrive."""
        sent = self._sent.get(routing_id)
        return sent is not None and held(pull) < sent.version and now - sent.at < UNDER_WAY_SECONDS

    def next(self, now: float) -> tuple[bytes, Pull] | None:
        """Remove and return the pull that has waited longest; None if there is none or the budget has no room."""
        if not self._waiting or now < self._free:
            return None
        routing_id = next(iter(self._waiting))
        return routing_id, self._waiting.pop(routing_id)

    def sent(self, now: float, routing_id: bytes, version: int, size: int) -> None:
        """Note that whole weights of this version, of `size` bytes, were sent to one peer."""
        self._sent[routing_id] = _Sent(now, version, self._acknowledged.get(routing_id, 0) + size)

    def progress(self, routing_id: bytes, progress: Progress) -> None:
        """Note the progress of a peer's connection."""
        before = self._acknowledged.get(routing_id, 0)
        self._acknowledged[routing_id] = progress.acknowledged
        sent = self._sent.get(routing_id)
        if sent is not None and before < progress.acknowledged < sent.arrive_at:
            sent.at = max(sent.at, progress.moved)

    def spent(self, now: float, size: int, share: float = 1.0) -> None:
        """Note that `size` bytes were sent, for which there is only this share of the budget."""
        self._free = max(now, self._free) + size * self._seconds_per_byte / share

    def left(self, routing_id: bytes) -> None:
        self._waiting.pop(routing_id, None)
        self._sent.pop(routing_id, None)
        self._acknowledged.pop(routing_id, None)


def held(pull: Pull) -> int:
    """Return the version of the whole weights that the peer has; -1: none."""
    return -1 if pull.whole else pull.version
