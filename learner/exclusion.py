"""How a peer whose messages cannot be used is shut out."""

from learner.effects import Disconnect, Effect, Log, refuse
from learner.peers import Peer
from learner.run import Run

BAD_IN_A_ROW = 3
"""Unusable contributions, or evaluations, after which a peer is quarantined."""
MOST_OFFENCES = 16
"""Messages that no honest peer sends, after which it is quarantined however good the others are."""


def exclude(run: Run, now: float, routing_id: bytes, peer: Peer, reason: str) -> list[Effect]:
    """The peer is kept out for a while, under any incarnation; its connections end."""
    peers = run.peers
    seconds = peers.quarantine.add(now, peer.place, peer.hello.name, reason)
    peers.leave(routing_id)
    text = f"{peer.hello.name} is quarantined for {seconds:.0f} s: {reason}"
    run.stats.warn(text)
    ban = peers.quarantine.whole_place(now, peer.place)
    return [refuse(routing_id, "quarantined", reason), Disconnect(routing_id, ban), Log("error", text)]
