"""Which pulls of weights are answered now, and which wait: bodies for single peers keep to the egress budget."""

import math

from common.wire.messages import Pull

UNDER_WAY_SECONDS = 30.0
"""For so long whole weights that were sent may be under way: no second copy goes to the same connection meanwhile."""


class PullQueue:
    """Pulls that wait for their turn, one of each peer, and the time that the budget leaves for them."""

    def __init__(self, egress_mbit: float) -> None:
        self._seconds_per_byte = 8 / (egress_mbit * 1e6)
        self._free = -math.inf
        """When the budget has room for the next body."""
        self._waiting: dict[bytes, Pull] = {}
        self._sent: dict[bytes, tuple[float, int]] = {}
        """When each peer was sent whole weights last, and which."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def deadline(self) -> float:
        return self._free if self._waiting else math.inf

    def ask(self, now: float, routing_id: bytes, pull: Pull) -> None:
        """Takes a pull, unless what it asks for is under way."""
        at, version = self._sent.get(routing_id, (-math.inf, -1))
        if held(pull) >= version or now - at >= UNDER_WAY_SECONDS:
            self._waiting[routing_id] = pull

    def next(self, now: float) -> tuple[bytes, Pull] | None:
        """The pull that has waited longest, if the budget has room for its answer."""
        if not self._waiting or now < self._free:
            return None
        routing_id = next(iter(self._waiting))
        return routing_id, self._waiting.pop(routing_id)

    def sent(self, now: float, routing_id: bytes, version: int) -> None:
        """Whole weights of this version went to one peer."""
        self._sent[routing_id] = (now, version)

    def spent(self, now: float, size: int, share: float = 1.0) -> None:
        """So many bytes went out, for which this share of the budget is there."""
        self._free = max(now, self._free) + size * self._seconds_per_byte / share

    def left(self, routing_id: bytes) -> None:
        self._waiting.pop(routing_id, None)
        self._sent.pop(routing_id, None)


def held(pull: Pull) -> int:
    """The version that the peer has; -1: none."""
    return -1 if pull.whole else pull.version
