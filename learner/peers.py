"""The peers in the run: one record each, kept by routing id, and what is remembered after a connection has ended."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from common.host.load import Load
from common.run.status import HostStatus, KeyStatus
from common.wire.messages import Hello, SiteReport
from common.wire.protocol import SENDERS
from learner.bounded_dict import BoundedDict
from learner.meters import WINDOW_SECONDS, Rate
from learner.peer import Peer
from learner.quarantine import Quarantine
from learner.replay_window import Incarnation, ReplayWindow

GUESTS = ("observer", "operator")
"""Roles that take no part in the run: such peers come and go without a log line, and any number may have one name."""
MOST_LATE = 10
"""A peer that is late again and again is waited for at least once in about a thousand versions."""
FORGIVING = 100
"""Versions without being late again that make good for one that a peer was late for."""
REPLACED = 1000
"""Most replaced incarnations that are remembered."""


class Peers:
    def __init__(self, rate_seconds: float = WINDOW_SECONDS) -> None:
        """`rate_seconds`: window for the frames per second of each actor."""
        self._rate_seconds = rate_seconds
        self._by_id: dict[bytes, Peer] = {}
        self._by_process: dict[tuple[str, ...], bytes] = {}
        self._by_place: dict[tuple[str, ...], dict[bytes, Peer]] = {}
        self._by_role: dict[str, dict[bytes, Peer]] = {}
        self._senders: dict[bytes, Incarnation] = {}
        """Incarnations of actors and relays, by routing id."""
        self.actors = 0
        """Number of actors in the run; behind a relay, as many as it last reported."""
        self.playing: set[Incarnation] = set()
        """The actors and relays that have sent contributions, and that a step may wait for."""
        self.on_leave: list[Callable[[bytes], None]] = []
        """Callbacks of the parts that keep something per peer: called with the routing id of each peer that leaves."""
        self.near_senders = 0
        """How many of the actors and relays are near."""
        self._window = ReplayWindow()
        self._replaced: BoundedDict[Incarnation, None] = BoundedDict(REPLACED)
        self.quarantine = Quarantine()
        self.key_roles: Mapping[str, Collection[str]] = {}
        """Roles that the holders of keys may take, by the key's name; of a key not listed here, none."""
        self._key_seen: dict[str, float] = {}
        """When a peer that has left since was last heard, for each key."""
        self._joined: Counter[str] = Counter()
        """Number of peers that have joined, by role."""

    def get(self, routing_id: bytes) -> Peer | None:
        return self._by_id.get(routing_id)

    def hears(self, now: float, routing_id: bytes, key_name: str) -> Peer | None:
        """Note a message and return its peer; None: not a peer in the run, or not under the key that it joined with."""
        peer = self._by_id.get(routing_id)
        if peer is None or peer.key_name != key_name:
            return None
        peer.seen = now
        return peer

    @property
    def joined(self) -> int:
        """Number of actors that have joined since the learner started; the order of joining is their `seed`."""
        return self._joined["actor"]

    def knows(self, hello: Hello, key_name: str = "") -> bool:
        """Whether this process is in the run, possibly under another connection."""
        return _process(hello, key_name) in self._by_process

    def role_refusal(self, key_name: str, role: str, whose: str) -> str:
        """Return why the key's holder may not take the role, by the list of `whose`; empty: it may, or no keys."""
        roles = self.key_roles.get(key_name, ())
        if not key_name or role in roles:
            return ""
        may = " or ".join(roles) or "nothing any more"
        return f"the key of {key_name} may be {may}, not {role}: the {whose}'s list says so"

    def with_keys(self, names: Collection[str]) -> list[bytes]:
        return [routing_id for routing_id, peer in self._by_id.items() if peer.key_name in names]

    def moved(self, routing_id: bytes, hello: Hello, key_name: str = "") -> bytes | None:
        """Move the record of a process that has connected anew; return its previous routing id. None: it has not."""
        before = self._by_process.get(_process(hello, key_name))
        if before is None or before == routing_id:
            return None
        peer = self._by_id[before]
        plays = peer.incarnation in self.playing
        self.leave(routing_id)
        self.leave(before)
        self._keep(routing_id, peer)
        if plays:
            self.playing.add(peer.incarnation)
        return before

    def join(
        self, routing_id: bytes, hello: Hello, now: float, key_name: str = "", place: str = "", *, near: bool = False
    ) -> tuple[Peer, bool]:
        """Add a peer; return its record, and whether that is new: a peer that says hello again keeps its record."""
        known = self._by_id.get(routing_id)
        if known is not None and known.is_of(hello, key_name):
            if routing_id in self._senders:
                self.near_senders += near - known.near
            known.seen, known.place, known.near = now, place, near  # it may have connected from another address
            return known, False
        rate = Rate(self._rate_seconds, now)
        peer = Peer(hello=hello, seen=now, key_name=key_name, place=place, near=near, rate=rate)
        self.leave(routing_id)
        self._keep(routing_id, peer)
        peer.seed = self._joined[hello.role]
        self._joined[hello.role] += 1
        return peer, True

    def _keep(self, routing_id: bytes, peer: Peer) -> None:
        self._by_id[routing_id] = peer
        self._by_process[_process(peer.hello, peer.key_name)] = routing_id
        self._by_place.setdefault(_place(peer.hello), {})[routing_id] = peer
        self._by_role.setdefault(peer.hello.role, {})[routing_id] = peer
        if peer.hello.role in SENDERS:
            self._senders[routing_id] = peer.incarnation
            self.actors += peer.actors
            self.near_senders += peer.near

    def replaced_by(self, hello: Hello) -> list[bytes]:
        """Return the routing ids of this peer's predecessors, which would count beside it until they expire.

        A launcher's name is unique. An actor's name is unique among the actors of its launcher, or on its host if it
        was started by hand. An incarnation that has sent contributions, or was itself replaced, evicts nobody: it is
        alive and has only reconnected. Otherwise two processes of one name would evict each other for ever.
        """
        known = (hello.name, hello.incarnation)
        if hello.role in GUESTS or known in self._window or known in self._replaced:
            return []
        return [
            routing_id
            for routing_id, peer in self._by_place.get(_place(hello), {}).items()
            if peer.hello.incarnation != hello.incarnation
        ]

    def replace(self, routing_id: bytes) -> Peer | None:
        """Remove a peer whose successor takes its place; return its record."""
        peer = self.leave(routing_id)
        if peer is not None:
            self._replaced[peer.incarnation] = None
        return peer

    def successor(self, hello: Hello) -> Peer | None:
        """Return the launcher that has taken the place of this one, which is alive after all; None: it may join."""
        if hello.role != "launcher" or (hello.name, hello.incarnation) not in self._replaced:
            return None
        others = (peer for _, peer in self.role("launcher") if peer.hello.name == hello.name)
        return next((peer for peer in others if peer.hello.incarnation != hello.incarnation), None)

    def leave(self, routing_id: bytes) -> Peer | None:
        """Forget the connection and return the peer's record, if there was one; sequence numbers are remembered."""
        peer = self._by_id.pop(routing_id, None)
        if peer is not None:
            if peer.key_name in self.key_roles:
                self._key_seen[peer.key_name] = max(peer.seen, self._key_seen.get(peer.key_name, -math.inf))
            if self._senders.pop(routing_id, None) is not None:
                self.actors -= peer.actors
                self.near_senders -= peer.near
                self.playing.discard(peer.incarnation)
            self._by_process.pop(_process(peer.hello, peer.key_name), None)
            del self._by_role[peer.hello.role][routing_id]
            place = self._by_place[_place(peer.hello)]
            del place[routing_id]
            if not place:
                del self._by_place[_place(peer.hello)]
            for forget in self.on_leave:
                forget(routing_id)
        return peer

    def alive(self, progress: Mapping[bytes, float]) -> None:
        """Note when bytes from or to peers last moved: a message that takes minutes is a sign of life, too."""
        for routing_id, moved in progress.items():
            if peer := self._by_id.get(routing_id):
                peer.seen = max(peer.seen, moved)

    def silent(self, now: float, seconds: float) -> list[tuple[bytes, Peer]]:
        """Return the peers that were last heard more than `seconds` times their patience ago."""
        everyone = self._by_id.items()
        return [(routing_id, peer) for routing_id, peer in everyone if now - peer.seen > seconds * peer.patience]

    def excuse(self, now: float, seconds: float) -> None:
        """Excuse all peers for a silence of `seconds`, in which nobody could be heard."""
        if seconds:
            for peer in self._by_id.values():
                peer.seen = min(peer.seen + seconds, now)

    def role(self, role: str) -> list[tuple[bytes, Peer]]:
        """Return all peers of one role, in the order in which they joined."""
        return list(self._by_role.get(role, {}).items())

    def site_reported(self, peer: Peer, report: SiteReport) -> bool:
        """Take a relay's report on its site; return whether it has more actors than before."""
        before, peer.site = peer.actors, report
        self.actors += peer.actors - before
        return peer.actors > before

    @property
    def senders(self) -> int:
        """Number of actors and relays; a relay counts as one."""
        return len(self._senders)

    @property
    def incarnations(self) -> Collection[Incarnation]:
        """Incarnations of the actors and relays."""
        return self._senders.values()

    @property
    def sources(self) -> set[str]:
        """Names under which episodes may arrive now: those of senders, and of actors behind relays (`source_of`)."""
        found = {name for name, _ in self.incarnations}
        for _, peer in self.role("relay"):
            if peer.site is not None:
                found |= {source_of(peer.hello.name, number) for number, _, _ in peer.site.named}
        return found

    @property
    def site_names(self) -> set[str] | None:
        """Names of the actors behind relays; None: the relays do not name all of them."""
        sites = [peer.site for _, peer in self.role("relay") if peer.site is not None]
        if any(site.actors > len(site.named) for site in sites):
            return None
        return {name for site in sites for _, name, _ in site.named}

    def hosts(self, own: str, load: Load | None) -> list[HostStatus]:
        """Return the state of each host, told by its peer heard last; `own` is the learner's host, with its `load`."""
        loads = {} if load is None else {own: load}
        heard = {own: math.inf} if loads else {}
        actors: Counter[str] = Counter()
        for role in ("actor", "launcher", "evaluator", "relay"):
            for peer in self._by_role.get(role, {}).values():
                host = peer.hello.host
                actors[host] += role == "actor"
                if peer.load is not None and peer.seen > heard.get(host, -math.inf):
                    heard[host], loads[host] = peer.seen, peer.load
        return [HostStatus(name=host, actors=actors[host], **one._asdict()) for host, one in loads.items()]

    def keys(self, now: float) -> list[KeyStatus]:
        """Return the state of each key on the learner's list."""
        if not self.key_roles:
            return []
        seen, peers = dict(self._key_seen), Counter[str]()
        for peer in self._by_id.values():
            peers[peer.key_name] += 1
            seen[peer.key_name] = max(peer.seen, seen.get(peer.key_name, -math.inf))
        return [
            KeyStatus(name=name, roles=list(roles), peers=peers[name], seen=now - seen[name] if name in seen else None)
            for name, roles in self.key_roles.items()
        ]

    def everyone(self) -> list[bytes]:
        return list(self._by_id)

    def is_duplicate(self, peer: Peer, sequence: int) -> bool:
        """Whether this contribution has been seen; from now on it counts as seen, also after a reconnect."""
        return self._window.is_duplicate(peer.incarnation, sequence)

    def contributed(self, peer: Peer, version: int, *, stale: bool) -> None:
        """Note a contribution: steps may wait for this peer, unless they have waited in vain.

        Then it is waited for ever more seldom, after 2, 4, 8, ... versions. FORGIVING versions in time make good for
        one that it was late for: a single one in time would let it hold up every second step.
        """
        if peer.late and version < peer.left_at + 2**peer.late:
            return
        self.playing.add(peer.incarnation)
        if peer.late and not stale and version >= peer.left_at + 2**peer.late + FORGIVING:
            peer.late -= 1
            peer.left_at = version - 2**peer.late

    def leave_behind(self, sent: Collection[Incarnation], version: int) -> list[str]:
        """No longer wait for the playing that are not among `sent`, until they send again; return their names."""
        late = self.playing.difference(sent)
        self.playing -= late
        for peer in (self._by_id[routing_id] for routing_id in self._senders):
            if peer.incarnation in late:
                peer.late, peer.left_at = min(peer.late + 1, MOST_LATE), version
        return sorted(name for name, _ in late)

    def took_part(self, peer: Peer) -> None:
        """Note that this incarnation has played: like one that has sent contributions, it evicts nobody on return."""
        self._window.know(peer.incarnation)

    def has_worked(self, hello: Hello) -> bool:
        """Whether this incarnation has sent contributions, or played for the learner."""
        return (hello.name, hello.incarnation) in self._window


def source_of(relay: str, number: int) -> str:
    """Return the source name of the `number`-th actor behind a relay: actors at two sites may have the same name."""
    return f"{relay}#{number}"


def _process(hello: Hello, key_name: str) -> tuple[str, ...]:
    return hello.incarnation, hello.name, hello.role, key_name


def _place(hello: Hello) -> tuple[str, ...]:
    """Return the place of a peer, at which there is one peer at a time."""
    if hello.role == "launcher":
        return hello.role, hello.name
    return hello.role, hello.name, hello.launcher, "" if hello.launcher else hello.host
