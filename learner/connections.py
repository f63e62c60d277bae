"""Which TCP connections to the learner's ports are to be closed: pure rules; `learner.guard` observes and closes them.

libzmq reads whatever arrives (docs/protocol.md says why it must), keeps unread and unfinished messages as long as there
is memory, and accepts every connection as long as there are descriptors. So each connection is bounded here, by the
bytes that the kernel has counted.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

Port = Literal["control", "weights"]
PORTS: tuple[Port, ...] = get_args(Port)

SILENT_SECONDS = 10.0
"""A connection that has not delivered one message is closed after it has been idle for this long."""
STRANGERS = 1024
"""Most connections that have not delivered a message yet. Beyond that, the oldest connections of the address that has
the most of them are closed."""
FEW_STRANGERS = 64
"""Without room for all connections, no more than these are left that have not delivered a message: honest peers speak
within moments."""
SUBSCRIPTION_BYTES = 4096
"""Most bytes that a subscriber may send: a handshake and one subscription. libzmq keeps each subscription for good."""
SUBSCRIBERS_BESIDES = 64
"""How many more subscribers one address may have than connections to the control port."""
OFFENCE_SECONDS = 1.0
"""How long an address is kept out after it has flooded the port for weights; twice as long after each further flood."""
LONGEST_OFFENCE_SECONDS = 30.0
FORGIVEN_SECONDS = 120.0
"""An address that has behaved for this long after it was let in again starts at OFFENCE_SECONDS."""
REMEMBERED_OFFENCES = 1000
COMMAND_BYTES = 16
"""Bytes a second of ZMTP's own commands, such as pings, which are received but never delivered."""
GREEDY_BYTES = 48 * 2**20
"""Each time the process has grown by this much for no other reason, the connection with most unread is closed."""
OWN_MESSAGES = 3
"""Longest messages by which the learner itself makes memory grow: the packed weights of a large network, and the sum of
its gradients, are each as long as a gradient."""
USUAL_MESSAGES = 16
"""Upper bound on the longest messages that a member may have unread however short memory is; with a credit of 1 there
are 2."""
STRANGERS_BYTES = 2**16
"""No honest peer has more unread before its first message, except one that resumes a long message after a reconnect."""


@dataclass(eq=False)
class Connection:
    """A connection that a port has accepted.

    The daemon's thread writes the last four fields, the guard's thread the others.
    """

    descriptor: int
    peer: tuple[str, int]
    """Address and port of the other end. Descriptors are soon reused; this pair is not for a long time."""
    port: Port
    since: float
    received: int = 0
    """Bytes that were received, as the kernel counts them."""
    acknowledged: int = 0
    """Bytes that the other end has acknowledged."""
    moved: float = 0.0
    """When either count last grew."""
    closing: bool = False
    gone: float = math.inf
    """When it was closed."""
    delivered: int = 0
    """Bytes of the messages that have been read from it."""
    spoke: bool = False
    """Whether a message has been read from it."""
    key_name: str = ""
    told: float = 0.0
    """The last `moved` that was told as progress."""

    @property
    def address(self) -> str:
        return self.peer[0]

    @property
    def is_stranger(self) -> bool:
        """Whether it has not delivered a message yet; subscribers never do."""
        return self.port == "control" and not self.spoke

    def count(self, now: float, received: int, acknowledged: int) -> None:
        """Take the byte counts of the kernel."""
        if (received, acknowledged) != (self.received, self.acknowledged):
            self.received, self.acknowledged, self.moved = received, acknowledged, now

    def unread(self, now: float) -> int:
        """Return the bytes that were received but not delivered: waiting messages, and one that is not complete."""
        return max(0, self.received - self.delivered - int(COMMAND_BYTES * (now - self.since)))


@dataclass(frozen=True)
class Progress:
    """The progress of a connection on which bytes are under way."""

    moved: float
    """When bytes last moved."""
    acknowledged: int
    """Bytes that the other end has acknowledged."""


@dataclass(frozen=True)
class Bounds:
    message_bytes: int
    """Bytes of the longest message; a connection that has not delivered a message may not have sent more."""
    unread_bytes: int
    """Most unread bytes of one connection."""
    connections: int
    """Most connections of both ports together; the process's other files need descriptors too."""
    counts_bytes: bool = True
    """Whether the kernel tells how many bytes arrived; if not, the rules that need these counts do not apply."""
    all_unread_bytes: float = math.inf
    """Most unread bytes of all connections together. Beyond it the connections with most unread are closed, but none
    that has only as much as an honest one may have (`usual_bytes`)."""

    def usual_bytes(self, one: Connection) -> int:
        """Return the unread bytes up to which this connection is never closed to save the memory of all."""
        if not one.spoke:
            return STRANGERS_BYTES
        return max(self.message_bytes, min(self.unread_bytes // 4, USUAL_MESSAGES * self.message_bytes))


@dataclass
class Doorkeeper:
    """Chooses which connections to close and which addresses to keep out."""

    bounds: Bounds
    calm: float = field(default=math.inf, init=False)
    """Resident bytes of the process when no message was waiting."""
    _kept_out: dict[tuple[Port, str], float] = field(default_factory=dict)
    _offences: dict[tuple[Port, str], tuple[float, float]] = field(default_factory=dict)
    """For how many seconds an address's last offence kept it out, and until when."""
    _charged: float = math.inf
    """As `calm`, or resident bytes when the connection with most unread was last looked for, if that is later."""
    _flooded: bool = False
    """Whether unread messages take more memory than they should."""
    _flooding: set[tuple[Port, str]] = field(default_factory=set)
    """Addresses that connected during a flood. They are kept out until all is read: a connection that is ended at once
    has brought messages too."""

    def ban(self, address: str, until: float) -> None:
        """Allow no new connections from this address; never bans a loopback address, which all peers here share."""
        if not ipaddress.ip_address(address).is_loopback:
            for port in PORTS:
                self._kept_out[port, address] = until

    def kept_out(self, now: float, port: Port) -> set[str]:
        """Return the addresses from which there may be no new connections to this port now."""
        self._kept_out = {who: until for who, until in self._kept_out.items() if now < until}
        flooding = self._flooding if self._flooded else ()
        return {address for one, address in (*self._kept_out, *flooding) if one == port}

    def _offended(self, now: float, one: Connection) -> None:
        """Keep the address out of the port for a while; other actors that connect from there meanwhile pull weights.

        The daemon's thread must process a flood of subscriptions, which takes longer than sending it.
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
        """Note that no message is waiting: growth is counted from this memory (resident bytes; 0: not known)."""
        self.calm = self._charged = memory or self.calm
        self._flooded = False
        self._flooding.clear()

    def refuses(self, now: float, port: Port, address: str) -> str:
        """Return why a new connection from this address is to be closed at once; empty: it is not."""
        if now < self._kept_out.get((port, address), 0.0):
            return "is kept out for a while"
        if not self._flooded:
            return ""
        self._flooding.add((port, address))
        return "came while unread messages fill the memory"

    def to_close(self, now: float, connections: Sequence[Connection], memory: int) -> Iterator[tuple[Connection, str]]:
        """Yield each connection that is to be closed, with the reason; the caller sets its `closing` before it goes on.

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
        yield from self._without_room(connections)
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
        stranger = one.is_stranger and not one.closing
        return stranger and self.bounds.counts_bytes and now - max(one.since, one.moved) > SILENT_SECONDS

    def _too_many(self, connections: Sequence[Connection]) -> Iterator[tuple[Connection, str]]:
        """Yield the oldest of too many strangers, and the newest of too many subscribers: honest peers speak soon."""
        most = min(STRANGERS, self.bounds.connections // 2)
        strangers = _by_holder(one for one in connections if one.is_stranger)
        why = f"is one of too many on which nothing was said (at most {most})"
        for _ in range(sum(map(len, strangers.values())) - most):
            yield max(strangers.values(), key=len).pop(0), why
        peers = Counter(one.address for one in connections if one.port == "control" and not one.closing)
        for one in connections:
            if one.port == "weights" and not one.closing:
                peers[one.address] -= 1
                if peers[one.address] < -SUBSCRIBERS_BESIDES:
                    yield one, f"is one of too many subscribers (at most {SUBSCRIBERS_BESIDES} more than peers)"

    def _without_room(self, connections: Sequence[Connection]) -> Iterator[tuple[Connection, str]]:
        """Yield strangers, as long as there are more than a few, then the newest connections of whoever has most.

        Whoever: the holder of a key; where none is known, an address. Subscribers never say whose they are.
        """
        why = f"is beyond the {self.bounds.connections} connections that `ulimit -n` leaves room for"
        excess = sum(not one.closing for one in connections) - self.bounds.connections
        if excess <= 0:
            return
        strangers = _by_holder(one for one in connections if one.is_stranger)
        first = max(0, min(excess, sum(map(len, strangers.values())) - FEW_STRANGERS))
        for _ in range(first):
            yield max(strangers.values(), key=len).pop(0), why
        held = _by_holder(sorted(connections, key=lambda one: one.is_stranger))
        for _ in range(excess - first):
            yield max(held.values(), key=len).pop(), why

    def _beyond_all(self, now: float, connections: Sequence[Connection]) -> Iterator[tuple[Connection, str]]:
        """Yield the connections with most unread while all together have too much.

        The bytes that have arrived stay in memory until they are read, but a closed connection sends no more.
        """
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
        """Yield the connection with most unread if memory has grown by more than its bytes explain.

        Long messages take as much memory as they have bytes; floods of short ones take many times as much.
        """
        if not memory:  # the system does not tell it, or cannot at the moment
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


def _by_holder(connections: Iterable[Connection]) -> dict[str, list[Connection]]:
    """Return the connections that are not ending by the holder of their key; where none is known, by their address."""
    held: dict[str, list[Connection]] = {}
    for one in connections:
        if not one.closing:
            held.setdefault(one.key_name or one.address, []).append(one)
    return held
