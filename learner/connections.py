"""Which TCP connections to the learner's ports are to be closed: pure rules; `learner.guard` sees and closes them.

libzmq reads whatever comes (docs/protocol.md says why it must), keeps what is unread or unfinished as long as there is
memory, and accepts whoever connects as long as there are descriptors. So each connection is bounded here, by the bytes
that the kernel has counted.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

Port = Literal["control", "weights"]
PORTS: tuple[Port, ...] = get_args(Port)

SILENT_SECONDS = 10.0
"""A connection on which not one message has come is closed when nothing has come on it for so long."""
STRANGERS = 1024
"""Most connections on which no message has come yet; of more, the oldest of the address that has most are closed."""
SUBSCRIPTION_BYTES = 4096
"""Most that a subscriber may send: a handshake and one subscription; libzmq keeps each subscription for good."""
SUBSCRIBERS_BESIDES = 64
"""Subscribers that one address may have beyond its peers that have spoken."""
OFFENCE_SECONDS = 1.0
"""So long an address is kept out when it has flooded the port for weights; twice as long each time it does so again."""
LONGEST_OFFENCE_SECONDS = 30.0
FORGIVEN_SECONDS = 120.0
REMEMBERED_OFFENCES = 1000
COMMAND_BYTES = 16
"""A second: ZMTP's own commands, such as pings, are received and not delivered."""
GREEDY_BYTES = 48 * 2**20
"""Each time the process has grown by so much and nothing else explains it, the connection with most unread pays."""
OWN_MESSAGES = 3
"""Of the longest, for which memory grows by the learner's own doing: the weights of a large network as they are packed,
and the sum of its gradients, are as long as a gradient."""
USUAL_MESSAGES = 16
"""Of the longest, at most, that a member may have unread however short memory is; with a credit of 1 there are 2."""
STRANGERS_BYTES = 2**16
"""Nobody has more unread before the first message, but who goes on with a long one after a reconnect."""


@dataclass(eq=False)
class Connection:
    """One that a port has accepted. The daemon's thread writes the last three fields, the guard's thread the others."""

    descriptor: int
    peer: tuple[str, int]
    """Address and port at its other end: a descriptor is used again, this pair for a long time not."""
    port: Port
    since: float
    received: int = 0
    """Bytes."""
    acknowledged: int = 0
    """Bytes that its other end has."""
    moved: float = 0.0
    """When either has last grown."""
    closing: bool = False
    gone: float = math.inf
    """When it was closed."""
    delivered: int = 0
    """Bytes of the messages that have been read."""
    spoke: bool = False
    """A message has been read."""
    key_name: str = ""

    @property
    def address(self) -> str:
        return self.peer[0]

    def count(self, now: float, received: int, acknowledged: int) -> None:
        """What the kernel has counted."""
        if (received, acknowledged) != (self.received, self.acknowledged):
            self.received, self.acknowledged, self.moved = received, acknowledged, now

    def unread(self, now: float) -> int:
        """Bytes that were received and not delivered: messages that wait, and one that is not complete."""
        return max(0, self.received - self.delivered - int(COMMAND_BYTES * (now - self.since)))


@dataclass(frozen=True)
class Progress:
    """Of a connection on which bytes are under way."""

    moved: float
    """When, last."""
    acknowledged: int
    """Bytes that its other end has."""


@dataclass(frozen=True)
class Bounds:
    message_bytes: int
    """Of the longest message: who has said nothing yet may have sent no more."""
    unread_bytes: int
    """Of one connection."""
    connections: int
    """Of both ports; the process' other files must find descriptors too."""
    counts_bytes: bool = True
    """Whether the kernel tells how many bytes came; if not, the rules that need them do not hold."""
    all_unread_bytes: float = math.inf
    """Of all together; beyond it those that have most are closed, unless any honest one may have as much."""

    def usual_bytes(self, one: Connection) -> int:
        """Who has no more unread is never the one that pays for the memory of all."""
        if not one.spoke:
            return STRANGERS_BYTES
        return max(self.message_bytes, min(self.unread_bytes // 4, USUAL_MESSAGES * self.message_bytes))


@dataclass
class Doorkeeper:
    """Chooses the connections that are to be closed."""

    bounds: Bounds
    calm: float = field(default=math.inf, init=False)
    """Resident bytes when no message waited."""
    _kept_out: dict[tuple[Port, str], float] = field(default_factory=dict)
    _offences: dict[tuple[Port, str], tuple[float, float]] = field(default_factory=dict)
    """For how long the last one kept an address out, and until when."""
    _charged: float = math.inf
    """The same, or when the greediest was last looked for."""
    _flooded: bool = False
    """Unread messages take more memory than they should."""
    _flooding: set[tuple[Port, str]] = field(default_factory=set)
    """Who has come meanwhile: kept out until all is read, since what is ended at once has brought messages too."""

    def ban(self, address: str, until: float) -> None:
        """No new connections from there; a loopback address is never banned, since everybody here shares it."""
        if not ipaddress.ip_address(address).is_loopback:
            for port in PORTS:
                self._kept_out[port, address] = until

    def kept_out(self, now: float, port: Port) -> set[str]:
        """Addresses from which there may be no new connections to this port now."""
        self._kept_out = {who: until for who, until in self._kept_out.items() if now < until}
        flooding = self._flooding if self._flooded else ()
        return {address for one, address in (*self._kept_out, *flooding) if one == port}

    def _offended(self, now: float, one: Connection) -> None:
        """Its address is kept out of the port: the other actors there that come meanwhile pull their weights.

        The daemon's thread must take what a flood of subscriptions has brought, which takes longer than to send it.
        """
        who = one.port, one.address
        seconds, until = self._offences.get(who, (0.0, -math.inf))
        if now >= until:
            seconds = OFFENCE_SECONDS if now > until + FORGIVEN_SECONDS else min(2 * seconds, LONGEST_OFFENCE_SECONDS)
            self._offences.pop(who, None)
            if len(self._offences) >= REMEMBERED_OFFENCES:
                del self._offences[next(iter(self._offences))]
            self._offences[who] = seconds, now + seconds
            self._kept_out[who] = max(now + seconds, self._kept_out.get(who, 0.0))

    def all_read(self, memory: int) -> None:
        """No message waits: growth is counted from here."""
        self.calm = self._charged = memory or self.calm
        self._flooded = False
        self._flooding.clear()

    def refuses(self, now: float, port: Port, address: str) -> str:
        """Why a new connection from there is to be closed at once; empty: it is not."""
        if now < self._kept_out.get((port, address), 0.0):
            return "is kept out for a while"
        if not self._flooded:
            return ""
        self._flooding.add((port, address))
        return "came while unread messages fill the memory"

    def to_close(self, now: float, connections: Sequence[Connection], memory: int) -> Iterator[tuple[Connection, str]]:
        """Each with the reason; whoever iterates sets `closing`.

        `connections`: the oldest first; `memory`: resident bytes of this process.
        """
        for one in connections:
            if not one.closing and (why := self._overdrawn(now, one)):
                if one.port == "weights":
                    self._offended(now, one)
                yield one, why
            elif self._is_silent(now, one):
                yield one, "connected and said nothing"
        yield from self._too_many(connections)
        yield from self._beyond_all(now, connections)
        yield from self._greediest(now, connections, memory)

    def _overdrawn(self, now: float, one: Connection) -> str:
        if not self.bounds.counts_bytes:
            return ""
        if one.port == "weights":
            return f"sent {one.received} bytes to a port that only sends" if one.received > SUBSCRIPTION_BYTES else ""
        unread = one.unread(now)
        most = self.bounds.unread_bytes if one.spoke else self.bounds.message_bytes
        return f"has sent {unread} bytes that are unread or unfinished" if unread > most else ""

    def _is_silent(self, now: float, one: Connection) -> bool:
        stranger = one.port == "control" and not (one.spoke or one.closing)
        return stranger and self.bounds.counts_bytes and now - max(one.since, one.moved) > SILENT_SECONDS

    def _too_many(self, connections: Sequence[Connection]) -> Iterator[tuple[Connection, str]]:
        """The oldest of the strangers, the newest of the others: whoever means it speaks soon, and stays."""
        most = min(STRANGERS, self.bounds.connections // 2)
        strangers: dict[str, list[Connection]] = {}
        for one in connections:
            if one.port == "control" and not (one.spoke or one.closing):
                strangers.setdefault(one.address, []).append(one)
        why = f"is one of too many on which nothing was said (at most {most})"
        for _ in range(sum(map(len, strangers.values())) - most):
            yield max(strangers.values(), key=len).pop(0), why
        peers = Counter(one.address for one in connections if one.port == "control" and not one.closing)
        for one in connections:
            if one.port == "weights" and not one.closing:
                peers[one.address] -= 1
                if peers[one.address] < -SUBSCRIBERS_BESIDES:
                    yield one, f"is one of too many subscribers (at most {SUBSCRIBERS_BESIDES} more than peers)"
        left = [one for one in reversed(connections) if not one.closing]
        excess = max(0, len(left) - self.bounds.connections)
        for one in sorted(left, key=lambda one: one.spoke)[:excess]:
            yield one, f"is beyond the {self.bounds.connections} connections that `ulimit -n` leaves room for"

    def _beyond_all(self, now: float, connections: Sequence[Connection]) -> Iterator[tuple[Connection, str]]:
        """What has come stays in memory until it is read; who is ended sends no more."""
        unread = [(one.unread(now), one) for one in connections if one.port == "control"]
        total = sum(count for count, _ in unread)
        if not self.bounds.counts_bytes or total <= self.bounds.all_unread_bytes:
            return
        for count, one in sorted(unread, key=lambda pair: pair[0], reverse=True):
            if total <= self.bounds.all_unread_bytes:
                return
            if not one.closing and count > self.bounds.usual_bytes(one):
                total -= count
                yield one, f"has most unread, {count} bytes, of more than {self.bounds.all_unread_bytes:.0f} in all"

    def _greediest(
        self, now: float, connections: Sequence[Connection], memory: int
    ) -> Iterator[tuple[Connection, str]]:
        """Long messages take as much memory as they have bytes, floods of short ones many times as much."""
        if not memory:  # the system does not say, or not now
            return
        waiting = [(one.unread(now), one) for one in connections if not one.closing]
        own = max(GREEDY_BYTES, OWN_MESSAGES * self.bounds.message_bytes)
        explained = own + 2 * sum(unread for unread, _ in waiting)
        self.calm, self._charged = min(self.calm, memory), min(self._charged, memory)
        self._flooded = memory > self.calm + explained
        if memory <= self._charged + explained:
            return
        self._charged = memory
        greedy = [(unread, one) for unread, one in waiting if unread > self.bounds.usual_bytes(one)]
        if greedy:
            unread, one = max(greedy, key=lambda pair: pair[0])
            yield one, f"has most unread, {unread} bytes, while the learner's memory grows"
