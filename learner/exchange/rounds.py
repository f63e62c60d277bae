"""The order in which contributions are handled when equal settings must give equal weights (`reproducible = true`).

The order of arrival would decide how sums of floats are rounded, and which figures are judged by which. So nothing is
handled before each actor of the run has sent one contribution; then all are handled, in the order in which the actors
joined. It does not matter which process joined first, since its seed goes by the same order.
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
    """Gathers rounds: one contribution from each of a fixed number of actors."""

    def __init__(self, actors: int) -> None:
        self.actors = actors
        self._waiting: dict[int, Arrived] = {}
        """The contributions of the incomplete round, by the actor's order of joining."""
        self._handled: dict[int, int] = {}
        """The last handled sequence number of each actor, by the same order."""

    def add(self, one: Arrived) -> list[Arrived]:
        """Take a contribution; return those to handle now: a whole round, none, or this one if it is a repetition."""
        order = one.peer.seed
        if one.message.sequence <= self._handled.get(order, 0):
            return [one]
        self._waiting[order] = one
        if len(self._waiting) < self.actors:
            return []
        waiting, self._waiting = self._waiting, {}
        self._handled |= {order: one.message.sequence for order, one in waiting.items()}
        return [waiting[order] for order in sorted(waiting)]
