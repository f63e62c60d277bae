"""Who is in the run: a record of each peer, kept by routing id, and what is remembered after a connection."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from common.host.load import Load
from common.run.status import HostStatus, KeyStatus
from common.wire.messages import Hello, SiteReport
from common.wire.protocol import SENDERS
from learner.bounded_dict import BoundedDict
from learner.meters import Rate
from learner.peer import Peer
from learner.quarantine import Quarantine
from learner.replay_window import Incarnation, ReplayWindow

RATE_SECONDS = 5.0
"""Window of each actor's frames per second."""
GUESTS = ("observer", "operator")
"""Roles of those who take no part in the run: they come and go unannounced, any number of them under one name."""
REPLACED = 1000
"""Replaced incarnations that are remembered."""


class Peers:
    def __init__(self) -> None:
        self._by_id: dict[bytes, Peer] = {}
        self._by_process: dict[tuple[str, ...], bytes] = {}
        self._by_place: dict[tuple[str, ...], dict[bytes, Peer]] = {}
        self._by_role: dict[str, dict[bytes, Peer]] = {}
        self._senders: dict[bytes, Incarnation] = {}
        """Incarnations of actors and relays, by routing id."""
        self.actors = 0
        """In the run; of those behind a relay as many as it said last."""
        self.playing: set[Incarnation] = set()
        """Of the senders, those that have sent what was played."""
        self.on_leave: list[Callable[[bytes], None]] = []
        """Whoever keeps something of a peer: called with the routing id of each that leaves."""
        self.near_senders = 0
        """How many of them are near."""
        self._window = ReplayWindow()
        self._replaced: BoundedDict[Incarnation, None] = BoundedDict(REPLACED)
        self.quarantine = Quarantine()
        self.key_roles: Mapping[str, Collection[str]] = {}
        """What the holders of keys may be, by the key's name; a key that is not here may be anything but operator."""
        self._key_seen: dict[str, float] = {}
        """When the last peer that left under each key was heard."""
        self._joined: Counter[str] = Counter()
        """By role."""

    def get(self, routing_id: bytes) -> Peer | None:
        return self._by_id.get(routing_id)

    def hears(self, now: float, routing_id: bytes, key_name: str) -> Peer | None:
        """Who has sent a message; None: nobody who is in the run, under the key that it joined with."""
        peer = self._by_id.get(routing_id)
        if peer is None or peer.key_name != key_name:
            return None
        peer.seen = now
        return peer

    @property
    def joined(self) -> int:
        """Actors that have joined since the learner started; the order of joining is their `seed`."""
        return self._joined["actor"]

    def knows(self, hello: Hello, key_name: str = "") -> bool:
        """Whether this process is in the run, perhaps under another connection."""
        return _process(hello, key_name) in self._by_process

    def with_keys(self, names: Collection[str]) -> list[bytes]:
        return [routing_id for routing_id, peer in self._by_id.items() if peer.key_name in names]

    def moved(self, routing_id: bytes, hello: Hello, key_name: str = "") -> bytes | None:
        """The routing id under which this process was here until now, if it has connected anew: its record moves."""
        before = self._by_process.get(_process(hello, key_name))
        if before is None or before == routing_id:
            return None
        peer = self._by_id[before]
        self.leave(routing_id)
        self.leave(before)
        self._keep(routing_id, peer)
        return before

    def join(
        self, routing_id: bytes, hello: Hello, now: float, key_name: str = "", place: str = "", *, near: bool = False
    ) -> tuple[Peer, bool]:
        """The peer's record and whether it is new; a peer that says hello again keeps its record."""
        known = self._by_id.get(routing_id)
        if known is not None and known.is_of(hello, key_name):
            known.seen = now
            return known, False
        rate = Rate(RATE_SECONDS, now)
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
            if peer.plays:
                self.playing.add(peer.incarnation)
            self.near_senders += peer.near

    def replaced_by(self, hello: Hello) -> list[bytes]:
        """Routing ids of the predecessors of this peer, which would count beside it until they expire.

        There is one launcher of a name; one actor of a name among those of its launcher, or, if it was started by hand,
        on its host. An incarnation that sent gradients, or was itself replaced, evicts nobody: it lives and comes back.
        Otherwise two of one name would evict each other for ever.
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
        """A successor takes this peer's place."""
        peer = self.leave(routing_id)
        if peer is not None:
            self._replaced[peer.incarnation] = None
        return peer

    def successor(self, hello: Hello) -> Peer | None:
        """The launcher that has taken the place of this one, which lives after all; None: it may join."""
        if hello.role != "launcher" or (hello.name, hello.incarnation) not in self._replaced:
            return None
        others = (peer for _, peer in self.role("launcher") if peer.hello.name == hello.name)
        return next((peer for peer in others if peer.hello.incarnation != hello.incarnation), None)

    def leave(self, routing_id: bytes) -> Peer | None:
        """Forgets the connection; sequence numbers are remembered."""
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
        """When bytes from or to a peer were last under way: a message that takes minutes is a sign of life too."""
        for routing_id, moved in progress.items():
            if peer := self._by_id.get(routing_id):
                peer.seen = max(peer.seen, moved)

    def silent(self, now: float, seconds: float) -> list[bytes]:
        return [routing_id for routing_id, peer in self._by_id.items() if now - peer.seen > seconds]

    def excuse(self, now: float, seconds: float) -> None:
        """So long nobody could be heard."""
        if seconds:
            for peer in self._by_id.values():
                peer.seen = min(peer.seen + seconds, now)

    def role(self, role: str) -> list[tuple[bytes, Peer]]:
        """All peers of one role, in the order they joined."""
        return list(self._by_role.get(role, {}).items())

    def site_reported(self, peer: Peer, report: SiteReport) -> bool:
        """A relay has told whom it stands for; returns whether they are more than before."""
        before, peer.site = peer.actors, report
        self.actors += peer.actors - before
        return peer.actors > before

    @property
    def senders(self) -> int:
        """Actors and relays, each counted once."""
        return len(self._senders)

    @property
    def incarnations(self) -> Collection[Incarnation]:
        """Of actors and relays."""
        return self._senders.values()

    @property
    def sources(self) -> set[str]:
        """Under whose names episodes may come now (`source_of`)."""
        found = {name for name, _ in self.incarnations}
        for _, peer in self.role("relay"):
            if peer.site is not None:
                found |= {source_of(peer.hello.name, number) for number, _, _ in peer.site.named}
        return found

    @property
    def site_names(self) -> set[str] | None:
        """Of the actors behind relays; None: there are more than are named."""
        sites = [peer.site for _, peer in self.role("relay") if peer.site is not None]
        if any(site.actors > len(site.named) for site in sites):
            return None
        return {name for site in sites for _, name, _ in site.named}

    def hosts(self, own: str, load: Load | None) -> list[HostStatus]:
        """By the peer of each that was heard last; `own` is the learner's, with its load."""
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
        """Those of the learner's list."""
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
        """Whether this contribution has been seen; it counts as seen from now on, also after a reconnect."""
        self.playing.add(peer.incarnation)
        return self._window.is_duplicate(peer.incarnation, sequence)

    def took_part(self, peer: Peer) -> None:
        """This incarnation has played: like one that sent gradients, it evicts nobody when it comes back."""
        self._window.know(peer.incarnation)

    def has_worked(self, hello: Hello) -> bool:
        """Whether this incarnation has sent contributions, or played for the learner."""
        return (hello.name, hello.incarnation) in self._window


def source_of(relay: str, number: int) -> str:
    """What an actor behind a relay is called as the one who played an episode: two of one name may be at two sites."""
    return f"{relay}#{number}"


def _process(hello: Hello, key_name: str) -> tuple[str, ...]:
    return hello.incarnation, hello.name, hello.role, key_name


def _place(hello: Hello) -> tuple[str, ...]:
    """Where there is one peer of a role at a time."""
    if hello.role == "launcher":
        return hello.role, hello.name
    return hello.role, hello.name, hello.launcher, "" if hello.launcher else hello.host
