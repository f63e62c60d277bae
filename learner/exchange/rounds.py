"""The order in which contributions are handled where the same settings are to give the same weights.

Who comes first decides how sums of floats are rounded, and whose figures are judged by whose. With
`reproducible = true` nothing is handled before each actor of the run has sent; then all are, in the order in which the
actors joined. Which process came first does not matter: its seed goes by the same order.
"""

from typing import NamedTuple

from common.wire.frames import Buffer
from common.wire.messages import Contribution
from learner.peer import Peer


class Arrived(NamedTuple):
    routing_id: bytes
    peer: Peer
    message: Contribution
    body: Buffer | None


class Rounds:
    """One contribution of each of a fixed number of actors at a time."""

    def __init__(self, actors: int) -> None:
        self.actors = actors
        self._waiting: dict[int, Arrived] = {}
        """By the order of joining."""
        self._handled: dict[int, int] = {}
        """The last sequence number of each."""

    def add(self, one: Arrived) -> list[Arrived]:
        """What is to be handled now: a whole round, one that was handled before and asks for its answer, or nothing."""
        order = one.peer.seed
        if one.message.sequence <= self._handled.get(order, 0):
            return [one]
        self._waiting[order] = one
        if len(self._waiting) < self.actors:
            return []
        waiting, self._waiting = self._waiting, {}
        self._handled |= {order: one.message.sequence for order, one in waiting.items()}
        return [waiting[order] for order in sorted(waiting)]
