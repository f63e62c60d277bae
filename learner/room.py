"""How many peers a run has room for, and who gives way when it is full: no key or address can take all of it."""

from collections import Counter

from common.settings.sections import MAX_ACTORS
from common.wire.protocol import SENDERS
from learner.peer import Peer
from learner.peers import Peers

MOST_LAUNCHERS = 1024
"""Most launchers in a run: the reports of each, which are kept, may name thousands of actors."""
MEMORY_SHARE = 0.5
"""Share of the memory free at the start that the rollouts of all actors together may take."""
GIVES_WAY = "gives way: the run is full, and its key or address has most peers"
"""What is logged of a peer that gives way to a new one."""


def actors_that_fit(free_bytes: int, bytes_per_actor: int) -> int:
    """Return how many actors a run has room for.

    free_bytes: free memory at the start. bytes_per_actor: what the learner may hold of one actor's rollouts at once.
    """
    return max(1, min(int(free_bytes * MEMORY_SHARE) // bytes_per_actor, MAX_ACTORS))


class Room:
    """Actors and relays share one room and launchers have another; peers of other roles are not counted."""

    def __init__(self, peers: Peers, most_actors: int = MAX_ACTORS) -> None:
        self._peers = peers
        self._most_actors = most_actors

    def refusal(self, role: str) -> str:
        """Return why a new peer of this role has no room, unless another gives way to it; empty: it has room."""
        if role in SENDERS and self._peers.senders >= self._most_actors:
            return f"this run has room for {self._most_actors} actors, and as many are in it"
        if role == "launcher" and len(self._peers.role(role)) >= MOST_LAUNCHERS:
            return f"this run has room for {MOST_LAUNCHERS} launchers, and as many are in it"
        return ""

    def gives_way(self, role: str, place: str) -> bytes | None:
        """Return who gives way to a new peer at `place` where there is no room for it; None: nobody does.

        It is the newest at the place that has most (a key; without keys, an address: `Peer.place`), an actor before a
        relay. Afterwards that place still has no fewer peers than `place`, so two places never drive out each other's
        peers in turns.
        """
        roles = ("relay", "actor") if role in SENDERS else (role,)
        members: list[tuple[bytes, Peer]] = [one for each in roles for one in self._peers.role(each)]
        counts = Counter(peer.place for _, peer in members)
        most_at = max(counts, key=counts.__getitem__)
        if counts[most_at] <= counts[place] + 1:
            return None
        return next(routing_id for routing_id, peer in reversed(members) if peer.place == most_at)
