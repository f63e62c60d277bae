"""How a peer whose messages cannot be used is shut out, by a learner and by a relay."""

from collections.abc import Callable

from common.wire.messages import Contribution
from learner.effects import Disconnect, Effect, Log, refuse
from learner.peer import Peer
from learner.peers import Peers

BAD_IN_A_ROW = 3
"""Unusable contributions, or evaluations, after which a peer is quarantined."""
MOST_OFFENCES = 16
"""Messages that no honest peer sends, after which it is quarantined however good the others are."""


def exclude(
    peers: Peers, warn: Callable[[str], None], now: float, routing_id: bytes, peer: Peer, reason: str
) -> list[Effect]:
    """The peer is kept out for a while, under any incarnation; its connections end. `warn`: tells people of it."""
    seconds = peers.quarantine.add(now, peer.place, peer.hello.name, reason)
    peers.leave(routing_id)
    text = f"{peer.hello.name} is quarantined for {seconds:.0f} s: {reason}"
    warn(text)
    ban = peers.quarantine.whole_place(now, peer.place)
    return [refuse(routing_id, "quarantined", reason), Disconnect(routing_id, ban), Log("error", text)]


class Discipline:
    """What those who send contributions or evaluations do wrong, until it is enough."""

    def __init__(self, peers: Peers, warn: Callable[[str], None], plural: str) -> None:
        """`plural`: what they send, as people call it."""
        self._peers = peers
        self._warn = warn
        self._plural = plural

    def offended(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """After an offence has been counted: nothing, or the quarantine."""
        if peer.offences < MOST_OFFENCES:
            return []
        reason = f"{MOST_OFFENCES} messages that no actor sends, the last one: {why}"
        return exclude(self._peers, self._warn, now, routing_id, peer, reason)

    def unusable(self, peer: Peer, header: Contribution, why: str) -> Log:
        """Counts one that cannot be used."""
        peer.bad_in_a_row += 1
        text = f"{peer.hello.name} sent a {type(header).__name__.lower()} that cannot be used: {why}"
        return Log("warning", text, key=f"bad {peer.hello.name}")

    def enough(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """After one that cannot be used has been counted: nothing, or the quarantine."""
        if peer.bad_in_a_row < BAD_IN_A_ROW:
            return []
        reason = f"{BAD_IN_A_ROW} {self._plural} in a row could not be used, the last one: {why}"
        return exclude(self._peers, self._warn, now, routing_id, peer, reason)
