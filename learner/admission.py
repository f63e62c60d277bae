"""Who joins the run and who leaves it: the answer to a hello, and what follows when a peer is gone.

The learner's side of `common.wire.membership`. `learner.peers` keeps the records of the peers in the run.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from common.errors import A3cdError
from common.host.addresses import Address
from common.host.security.keys import is_name_under
from common.settings.exchanges import why_no_relay
from common.wire.messages import Hello, Pull, Welcome
from common.wire.protocol import SENDERS
from learner.effects import Disconnect, Effect, Log, Send, refuse
from learner.exchange.base import Exchange
from learner.fleet import Fleet
from learner.parameters.publisher import WeightPublisher
from learner.peer import Peer
from learner.peers import GUESTS
from learner.room import GIVES_WAY, Room
from learner.run import Run

Level = Literal["info", "warning"]


class Admission:
    def __init__(self, run: Run, exchange: Exchange, publisher: WeightPublisher, fleet: Fleet) -> None:
        self._run = run
        self._peers = run.peers
        self._exchange = exchange
        self._publisher = publisher
        self._fleet = fleet
        self._room = Room(run.peers, exchange.most_actors)
        self._plain_settings = msgspec.to_builtins(run.spec.settings)

    def hello(self, now: float, routing_id: bytes, hello: Hello, key_name: str, address: str) -> list[Effect]:
        """Answer a hello with a welcome or a refusal.

        A peer that says hello again keeps its record; a new process takes the place of its predecessor.
        """
        place = f"key {key_name}" if key_name else f"address {address}"
        if refusal := self._refusal(now, routing_id, hello, key_name, address, place):
            return refusal
        try:
            codec = self._exchange.choose_codec(hello) if hello.role in SENDERS else ""
        except A3cdError as error:
            return [refuse(routing_id, "codec", str(error)), Log("warning", f"{hello.name}: {error}", key="codec")]
        effects = self._replace(self._peers.replaced_by(hello))
        before = self._peers.moved(routing_id, hello, key_name)
        if before is not None:
            effects.append(Disconnect(before))
        if not self._peers.knows(hello, key_name) and (full := self._room.refusal(hello.role)):
            way = self._room.gives_way(hello.role, place)
            if way is None:
                line = Log("warning", f"{hello.role} {hello.name} was refused: {full}", key=f"room {place}")
                return [*effects, refuse(routing_id, "role", full), line]
            effects += [refuse(way, "role", full), *self.leave(now, way, "warning", GIVES_WAY)]
        # The address alone does not prove it: a tunnel ends on this host, but the peer behind it runs elsewhere.
        near = hello.host == self._run.spec.host and Address(address, 0).loopback
        peer, new = self._peers.join(routing_id, hello, now, key_name, place, near=near)
        peer.codec = codec
        self._fleet.joined(hello)
        if new and hello.role not in GUESTS:
            origin = f" (by {hello.launcher})" if hello.launcher else ""
            effects.append(Log("info", f"{hello.role} {hello.name} on {hello.host} joined{origin}"))
        self._run.stats.joined(self._peers.actors)
        # A known peer has its first weights, or they are under way; otherwise it pulls them.
        effects += self._welcome(now, routing_id, peer, with_weights=new and before is None)
        return effects + (self._fleet.orders(now) if hello.role == "launcher" else [])

    def leave(self, now: float, routing_id: bytes, level: Level, text: str) -> list[Effect]:
        """Forget a peer and log it; if it was a launcher, order its actors from the other launchers."""
        peer = self._peers.leave(routing_id)
        effects = _gone(peer, level, text)
        return effects + (self._fleet.orders(now) if peer is not None and peer.hello.role == "launcher" else [])

    def leave_all(self, now: float, routing_ids: Sequence[bytes], level: Level, text: str) -> list[Effect]:
        return [effect for routing_id in routing_ids for effect in self.leave(now, routing_id, level, text)]

    def _refusal(
        self, now: float, routing_id: bytes, hello: Hello, key_name: str, address: str, place: str
    ) -> list[Effect]:
        """Return the refusal if this peer may not join, with a line for the log; an empty list if it may."""
        if key_name and not is_name_under(key_name, hello.name):
            reason = f"a peer with the key of {key_name} is called {key_name}/..., not {hello.name}"
            return [refuse(routing_id, "name", reason)]
        self._fleet.heard(hello)
        if hello.role == "operator" and (reason := self._may_not_operate(key_name, address)):
            return [refuse(routing_id, "role", reason), Log("warning", f"refused: {reason}", key=f"operator {place}")]
        if reason := self._peers.role_refusal(key_name, hello.role, "learner"):
            return [refuse(routing_id, "role", reason), Log("warning", f"refused: {reason}", key=f"role {key_name}")]
        if hello.role == "evaluator" and not self._run.spec.settings.evaluation.episodes:
            return [refuse(routing_id, "role", "this run takes no evaluations: evaluation.episodes = 0")]
        if hello.role == "relay" and (reason := why_no_relay(self._run.spec.settings)):
            return [refuse(routing_id, "relay", reason), Log("warning", f"{hello.name}: {reason}", key="relay")]
        if hello.role in ("actor", "evaluator", "relay"):
            proven = self._peers.has_worked(hello)
            if reason := self._peers.quarantine.reason(now, place, hello.name, proven=proven):
                return [refuse(routing_id, "quarantined", reason)]
            if reason := self._complete(hello, key_name):
                return [refuse(routing_id, "role", reason)]
        if (successor := self._peers.successor(hello)) is not None:
            return self._replaced(routing_id, hello, successor)
        return []

    def _may_not_operate(self, key_name: str, address: str) -> str:
        """Return why the holder of this key (without keys: this address) may not be an operator; empty if it may."""
        if not key_name:
            if Address(address, 0).loopback:
                return ""
            return (
                f"no operator from {address}: this learner has no keys, so it takes orders only on its own host, to "
                "tcp://localhost; or start it with keys, and invite one with --role operator"
            )
        if "operator" in self._peers.key_roles.get(key_name, ()):
            return ""
        return (
            f"the key of {key_name} is no operator's: on the learner's host, `a3cd keys list` shows it, and "
            f"`a3cd keys allow KEY --name {key_name} --role operator` makes it one (--role again for each other role)"
        )

    def _complete(self, hello: Hello, key_name: str) -> str:
        """Return why a reproducible run, which has all its actors, takes no further one; empty: it takes this peer."""
        settings, joined = self._run.spec.settings, self._peers.joined
        if not settings.reproducible or hello.role != "actor":
            return ""
        if joined < settings.scaling.minimum or self._peers.knows(hello, key_name):
            return ""
        return f"reproducible = true: this run has had its {joined} actors (scaling.minimum), and takes no other"

    def _replaced(self, routing_id: bytes, hello: Hello, successor: Peer) -> list[Effect]:
        """Refuse a launcher that is still alive after a newer launcher of the same name has taken its place."""
        text = (
            f"launcher {hello.name} on {hello.host} is not let in: one of its name on {successor.hello.host} came later"
        )
        self._run.stats.warn(text)
        reason = f"launcher {hello.name} on {successor.hello.host} came later; --name gives another name"
        return [refuse(routing_id, "replaced", reason), Log("warning", text, key=f"replaced {hello.name}")]

    def _replace(self, routing_ids: Sequence[bytes]) -> list[Effect]:
        """Remove the predecessors of a joining peer; the other launchers need no new orders in between."""
        effects: list[Effect] = []
        for routing_id in routing_ids:
            peer = self._peers.replace(routing_id)
            effects += _gone(peer, "info", "was started again: the one before is removed")
        return effects

    def _welcome(self, now: float, routing_id: bytes, peer: Peer, *, with_weights: bool) -> list[Effect]:
        spec, exchange = self._run.spec, self._run.spec.settings.exchange
        welcome = Welcome(
            run=spec.run,
            epoch=spec.epoch,
            a3cd=spec.versions.get("a3cd", ""),
            heartbeat_seconds=exchange.heartbeat_seconds,
            expiry_seconds=exchange.expiry_seconds,
        )
        newest = self._run.stats.counters.version
        seed = spec.actor_seed(peer.seed)
        if peer.hello.role == "evaluator":
            welcome = msgspec.structs.replace(
                welcome,
                settings=self._plain_settings,
                model=spec.model,
                weights_format=spec.weights_format,
                version=newest,
                seed=seed,
            )
        if peer.hello.role not in SENDERS:
            return [Send(routing_id, welcome)]
        version, body = self._publisher.first(now, routing_id) if with_weights else (newest, None)
        welcome = msgspec.structs.replace(
            welcome,
            settings=self._plain_settings,
            codec=peer.codec,
            credit=exchange.credit,
            model=spec.model,
            weights_port=spec.weights_port,
            weights_format=spec.weights_format,
            version=version,
            actors=self._peers.actors,
            seed=seed,
        )
        if peer.hello.role == "relay":
            welcome = msgspec.structs.replace(
                welcome, parameters=spec.parameters, counted=spec.counted, longest_episode=spec.longest_episode
            )
        effects: list[Effect] = [Send(routing_id, welcome, body)]
        if body is not None and version < newest:
            effects += self._publisher.pulled(now, routing_id, Pull(version=version))
        return effects


def _gone(peer: Peer | None, level: Level, text: str) -> list[Effect]:
    """Return the log line about a peer that has left; none for guests."""
    if peer is None or peer.hello.role in GUESTS:
        return []
    return [Log(level, f"{peer.hello.role} {peer.hello.name} {text}")]
