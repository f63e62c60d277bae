"""How a learner or a relay excludes a peer whose messages cannot be used."""

from collections.abc import Callable, Collection

from common.wire.messages import Contribution
from learner.effects import Disconnect, Effect, Log, refuse
from learner.peer import Peer
from learner.peers import Peers
from learner.replay_window import Incarnation

BAD_IN_A_ROW = 3
"""Unusable contributions or evaluations in a row after which a peer is quarantined."""
MOST_OFFENCES = 16
"""Number of messages that no honest peer sends after which a peer is quarantined, however good its others are."""


def exclude(
    peers: Peers, warn: Callable[[str], None], now: float, routing_id: bytes, peer: Peer, reason: str
) -> list[Effect]:
    """Quarantine a peer for a while, whatever its incarnation, and end its connections.

    `warn`: called with the text that tells people of it.
    """
    seconds = peers.quarantine.add(now, peer.place, peer.hello.name, reason)
    peers.leave(routing_id)
    text = f"{peer.hello.name} is quarantined for {seconds:.0f} s: {reason}"
    warn(text)
    ban = peers.quarantine.whole_place(now, peer.place)
    return [refuse(routing_id, "quarantined", reason), Disconnect(routing_id, ban), Log("error", text)]


class Discipline:
    """Counts what senders of contributions or evaluations do wrong, and quarantines them when it is too much."""

    def __init__(self, peers: Peers, warn: Callable[[str], None], plural: str) -> None:
        """`plural`: the word for what they send, as it stands in messages to people."""
        self._peers = peers
        self._warn = warn
        self._plural = plural

    def offended(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """Return the effects of an offence that has been counted: none, or the quarantine."""
        if peer.offences < MOST_OFFENCES:
            return []
        reason = f"{MOST_OFFENCES} messages that no actor sends, the last one: {why}"
        return exclude(self._peers, self._warn, now, routing_id, peer, reason)

    def late(self, sent: Collection[Incarnation], seconds: float, version: int) -> list[Effect]:
        """Name the actors not among `sent`, for which a step has waited in vain: the next ones do not.

        `version`: that of the weights before the step.
        """
        effects: list[Effect] = []
        for name in self._peers.leave_behind(sent, version):
            text = f"{name} kept a step waiting for {seconds:g} s: no step waits for it until it sends again"
            self._warn(text)
            effects.append(Log("warning", text, key=f"late {name}"))
        return effects

    def unusable(self, peer: Peer, header: Contribution, why: str) -> Log:
        """Count a contribution that cannot be used; return the line for the log."""
        peer.bad_in_a_row += 1
        text = f"{peer.hello.name} sent a {type(header).__name__.lower()} that cannot be used: {why}"
        return Log("warning", text, key=f"bad {peer.hello.name}")

    def enough(self, now: float, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """Return the effects of an unusable message that has been counted: none, or the quarantine."""
        if peer.bad_in_a_row < BAD_IN_A_ROW:
            return []
        reason = f"{BAD_IN_A_ROW} {self._plural} in a row could not be used, the last one: {why}"
        return exclude(self._peers, self._warn, now, routing_id, peer, reason)
