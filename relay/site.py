"""The actors at a relay's site: they join, leave and fall silent as at a learner, and the learner is told of them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec
import numpy as np

from common.errors import A3cdError
from common.host.addresses import Address
from common.host.security.keys import is_name_under
from common.settings.sections import MAX_ACTORS
from common.wire.codecs.negotiate import choose
from common.wire.messages import MAX_ACTORS_NAMED, Hello, RefusalCode, SiteReport, Stop, Welcome
from learner.bounded_dict import BoundedDict
from learner.effects import Disconnect, Effect, Log, Send, refuse
from learner.peer import Peer
from learner.peers import Peers
from learner.room import GIVES_WAY, Room
from learner.run import RunSpec
from relay.gradients import Count
from relay.weights import KeptWeights

MOST_ASKING = 4096
"""Most actors remembered that asked to join while there was no learner; the rest will ask again."""
NAMED_BYTES = 2**15
"""Most bytes of names in one report: half of a header that every learner accepts."""
COMES_BACK = "the learner has started again"


@dataclass(frozen=True)
class _Asking:
    hello: Hello
    key_name: str
    address: str


class Site:
    """The site's actors, over all epochs of the learner."""

    def __init__(self, hello: Hello, learner: str, weights_port: int) -> None:
        """`hello`: the relay's own, to the learner at `learner`; `weights_port`: where it passes on broadcasts."""
        self.peers = Peers()
        self._room = Room(self.peers)
        self.count = Count()
        self._own = hello
        self._learner = learner
        self._weights_port = weights_port
        self._spec: RunSpec | None = None
        self._welcome: Welcome | None = None
        self._weights: KeptWeights | None = None
        self._asking: BoundedDict[bytes, _Asking] = BoundedDict(MOST_ASKING)

    def begin(self, spec: RunSpec, welcome: Welcome, weights: KeptWeights) -> list[Effect]:
        """Begins the learner's new epoch that `welcome` announces: all actors must join anew."""
        self._spec, self._welcome, self._weights = spec, welcome, weights
        self.peers.on_leave[:] = [weights.left]
        return self.end(COMES_BACK, final=False)

    def end(self, reason: str, *, final: bool) -> list[Effect]:
        """Tells all actors that it is over; if `final`, they stay listed until they say goodbye."""
        everyone = self.peers.everyone()
        if not final:
            for routing_id in everyone:
                self.peers.leave(routing_id)
        return [Send(routing_id, Stop(reason=reason, final=final)) for routing_id in everyone]

    # -- who joins -----------------------------------------------------------------------------------------------------

    def hello(self, now: float, routing_id: bytes, hello: Hello, key_name: str, address: str) -> list[Effect]:
        """Returns the refusal, if any; other actors are welcomed by `admit`, once there are weights to play with."""
        place = f"key {key_name}" if key_name else f"address {address}"
        if refusal := self._refusal(now, hello, key_name, place):
            code, reason = refusal
            return [refuse(routing_id, code, reason)]
        self._asking[routing_id] = _Asking(hello, key_name, address)
        return []

    def admit(self, now: float, actors: Callable[[], int]) -> list[Effect]:
        """Welcomes all actors that have asked; `actors`: number of actors in the whole run."""
        effects: list[Effect] = []
        while self._asking:
            routing_id, one = self._asking.popitem(last=False)
            effects += self._join(now, routing_id, one, actors)
        return effects

    def _refusal(self, now: float, hello: Hello, key_name: str, place: str) -> tuple[RefusalCode, str] | None:
        """Returns the code and the reason of the refusal; None: the actor may join."""
        name = hello.name
        if key_name and not is_name_under(key_name, name):
            return "name", f"a peer with the key of {key_name} is called {key_name}/..., not {name}"
        if hello.role != "actor":
            return "role", f"this is a relay, for actors alone: {hello.role}s go to the learner at {self._learner}"
        if reason := self.peers.role_refusal(key_name, "actor", "relay"):
            return "role", reason
        proven = self.peers.has_worked(hello)
        if reason := self.peers.quarantine.reason(now, place, name, proven=proven):
            return "quarantined", reason
        return None

    def _join(self, now: float, routing_id: bytes, one: _Asking, actors: Callable[[], int]) -> list[Effect]:
        hello, key_name = one.hello, one.key_name
        try:
            codec = self._codec(hello)
        except A3cdError as error:
            return [refuse(routing_id, "codec", str(error)), Log("warning", f"{hello.name}: {error}", key="codec")]
        effects: list[Effect] = []
        for before in self.peers.replaced_by(hello):
            self.peers.replace(before)
            effects.append(Log("info", f"actor {hello.name} was started again: the one before is removed"))
        moved = self.peers.moved(routing_id, hello, key_name)
        if moved is not None:
            effects.append(Disconnect(moved))
        place = f"key {key_name}" if key_name else f"address {one.address}"
        if not self.peers.knows(hello, key_name) and (full := self._room.refusal("actor")):
            way = self._room.gives_way("actor", place)
            if way is None:
                return [*effects, refuse(routing_id, "role", full)]
            effects += [refuse(way, "role", full), *self.leave([way], "warning", GIVES_WAY)]
        near = hello.host == self._own.host and Address(one.address, 0).loopback
        peer, new = self.peers.join(routing_id, hello, now, key_name, place, near=near)
        peer.codec = codec
        if new:
            origin = f" (by {hello.launcher})" if hello.launcher else ""
            effects.append(Log("info", f"actor {hello.name} on {hello.host} joined{origin}"))
        # An actor that is known already has its first weights, or they are under way; otherwise it pulls them.
        return [*effects, self._welcomed(now, routing_id, peer, actors(), with_weights=new and moved is None)]

    def _codec(self, hello: Hello) -> str:
        """Returns the codec for an actor's gradients; raises RefusedError."""
        assert self._spec is not None
        exchange = self._spec.settings.exchange
        return choose(
            exchange.codec,
            exchange.entropy_coder,
            hello.codecs,
            size=self._spec.parameters,
            loopback=hello.host == self._own.host,
            link_mbit=exchange.link_mbit,
        )

    def _welcomed(self, now: float, routing_id: bytes, peer: Peer, actors: int, *, with_weights: bool) -> Send:
        """Returns the learner's welcome with this actor's own values, without the fields that only a relay needs."""
        assert self._welcome is not None and self._weights is not None
        weights = self._weights
        version, body = weights.first(now, routing_id) if with_weights else (weights.version, None)
        welcome = msgspec.structs.replace(
            self._welcome,
            codec=peer.codec,
            weights_port=self._weights_port,
            version=version,
            actors=actors,
            seed=_seed(self._welcome.seed, peer.seed),
            relay=self._own.incarnation,
            parameters=0,
            counted=0,
            longest_episode=0,
        )
        return Send(routing_id, welcome, body)

    # -- who leaves ----------------------------------------------------------------------------------------------------

    def leave(self, routing_ids: Sequence[bytes], level: str, text: str) -> list[Effect]:
        """Removes these actors, also where they have only asked to join, and logs who left the site."""
        for routing_id in routing_ids:
            self.withdraw(routing_id)
        gone = [peer for routing_id in routing_ids if (peer := self.peers.leave(routing_id))]
        return [Log("warning" if level == "warning" else "info", f"actor {peer.hello.name} {text}") for peer in gone]

    def revoke(self, key_names: Collection[str]) -> list[Effect]:
        text = "was cut off: its key is not allowed any more"
        asking = [routing_id for routing_id, one in self._asking.items() if one.key_name in key_names]
        return self.leave([*asking, *self.peers.with_keys(key_names)], "warning", text)

    def withdraw(self, routing_id: bytes) -> None:
        """Forgets that an actor has asked to join."""
        self._asking.pop(routing_id, None)

    # ------------------------------------------------------------------------------------------------------------------

    def report(self, now: float) -> SiteReport:
        """Returns the report on this site for the learner."""
        peers = [peer for _, peer in self.peers.role("actor")]
        named = [(peer.seed, peer.hello.name, peer.rate.value(now)) for peer in peers[:MAX_ACTORS_NAMED]]
        return SiteReport(
            actors=min(len(peers), MAX_ACTORS),
            by_hand=min(sum(not peer.hello.launcher for peer in peers), MAX_ACTORS),
            stale=self.count.stale,
            refused=self.count.refused,
            named=list(_short_enough(named)),
        )


def _short_enough(named: Iterable[tuple[int, str, float]]) -> Iterable[tuple[int, str, float]]:
    """Returns as many of the first actors as a header has room for."""
    total = 0

    def fits(one: tuple[int, str, float]) -> bool:
        nonlocal total
        total += len(one[1].encode("utf-8", "replace")) + 24
        return total <= NAMED_BYTES

    return takewhile(fits, named)


def _seed(given: int, number: int) -> int:
    """Returns the seed for actor `number`, derived from the relay's seed `given`, and so different for every actor."""
    return int(np.random.SeedSequence([given, number]).generate_state(1, np.uint64)[0] >> 1)
