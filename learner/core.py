"""The learner's side of the protocol, without sockets, clocks or files: messages and time in, effects out.

    hello -> welcome -> gradient, trajectory or observations -> optimizer step -> acknowledgement or actions

Joining and leaving are here. The exchange (`learner.exchange`) turns the actors' messages into optimizer steps, weights
go out by `learner.parameters.publisher`, and `learner.fleet` decides how many actors there are.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from common.errors import A3cdError, ProtocolError, WireError
from common.host.security.keys import is_name_under
from common.host.service.logs import cut
from common.wire.frames import Buffer
from common.wire.messages import (
    AnyMessage,
    Contribution,
    FleetReport,
    Goodbye,
    Heartbeat,
    Hello,
    Inspect,
    Observe,
    Pull,
    Stop,
    Welcome,
)
from common.wire.protocol import may_send
from learner.attention import Attention
from learner.effects import Disconnect, Effect, Ending, Finish, Log, SaveCheckpoint, Send, WriteMetrics, refuse
from learner.exchange.base import Exchange
from learner.fleet import Fleet
from learner.health import Health
from learner.limits import ending
from learner.parameters.publisher import WeightPublisher
from learner.parameters.weights import Weights
from learner.peers import Peer
from learner.reports import Reports
from learner.run import Run

RECORD_SECONDS = 1.0
"""Between two rows of metrics, and two searches for silent peers."""
TOLD_STALL_SECONDS = 10.0
"""A longer time in which the learner did not listen is told to the operator."""
NOT_FINITE = "the weights are no longer finite: try a smaller optimizer.learning_rate or algorithm.max_grad_norm"


class LearnerCore:
    def __init__(self, run: Run, weights: Weights, exchange: Exchange, now: float) -> None:
        self.run = run
        self.max_bytes = run.spec.header_bytes + exchange.max_bytes
        """Of one message."""
        self.key_roles: Mapping[str, Collection[str]] = {}
        """What the holders of keys may be, by the key's name; a key that is not here may be anything."""
        self._settings = run.spec.settings
        self._plain_settings = msgspec.to_builtins(run.spec.settings)
        self._weights = weights
        self._exchange = exchange
        self._publisher = WeightPublisher(run, weights, exchange.weights_go_out, now)
        self._health = Health()
        self._reports = Reports(run)
        self._fleet = Fleet(run)
        self._attention = Attention(now)
        self._record_due = now
        self._scale_due = now
        self._saved_best = run.stats.window.best_return
        self._finished = False
        self._last_word = Stop(reason="", final=False)

    @property
    def deadline(self) -> float:
        """When `answer`, `flush` or `tick` has something to do next."""
        parts = min(self._exchange.deadline, self._publisher.deadline)
        return min(parts, self._record_due, self.run.saves.deadline, self._scale_due)

    def begin(self) -> list[Effect]:
        """Before the first message."""
        return self._exchange.begin()

    def handle(
        self,
        now: float,
        routing_id: bytes,
        message: AnyMessage,
        body: Buffer | None,
        key_name: str = "",
        address: str = "",
    ) -> list[Effect]:
        """One message from one peer; `key_name` is the name of its key, empty without keys.

        `address`: that a hello came from.
        """
        if self._finished:
            return self._dismiss(routing_id, message)
        if isinstance(message, Hello):
            return self._hello(now, routing_id, message, key_name, address)
        peer = self.run.peers.get(routing_id)
        if peer is None or peer.key_name != key_name:
            return [] if isinstance(message, Goodbye) else [refuse(routing_id, "unknown", "say hello first")]
        peer.seen = now
        if not may_send(peer.hello.role, message):
            return [refuse(routing_id, "role", f"a learner takes no such message from a {peer.hello.role}")]
        match message:
            case Contribution() | Observe():
                effects = self._exchange.handle(now, routing_id, peer, message, body)
                effects = self._publisher.ahead_of_answers(now, effects)
                return effects + self.flush(now) if self._exchange.is_ready else effects
            case Pull():
                return self._publisher.pulled(now, routing_id, message)
            case Heartbeat():
                return self._heartbeat(routing_id, peer, message)
            case FleetReport():
                return self._fleet.reported(now, routing_id, peer, message)
            case Inspect():
                return self._reports.asked(now, routing_id, peer)
            case Goodbye():
                return self._gone(now, routing_id, "info", cut(f"left: {message.reason}"))
            case _:
                raise ValueError(f"{type(message).__name__}: peers may send it, and nothing here takes it")

    def malformed(self, routing_id: bytes, error: WireError) -> list[Effect]:
        if isinstance(error, ProtocolError):
            return [
                refuse(routing_id, "protocol", str(error)),
                Log("warning", f"a peer was refused: {error}", key="protocol"),
            ]
        effects: list[Effect] = [Log("warning", f"a peer sent bytes that are no message: {error}", key="malformed")]
        return effects if self.run.peers.get(routing_id) else [*effects, Disconnect(routing_id)]  # reading takes time

    def answer(self, now: float) -> list[Effect]:
        """Answers that need no optimizer step; to be sent before `flush`, which takes its time."""
        return self._exchange.answer(now)

    def flush(self, now: float) -> list[Effect]:
        """An optimizer step if it is time, with its answers, and a broadcast if it is due."""
        effects = self._publisher.ahead_of_answers(now, self._exchange.step(now))
        return effects + self._publisher.publish(now, self.run.peers.actors)

    def tick(self, now: float, *, heard_all: bool = True) -> list[Effect]:
        """Everything that is due: broadcast, expiry, scaling, metrics, checkpoint, and the end of the run.

        `heard_all`: no message waits to be read.
        """
        effects = self._publisher.publish(now, self.run.peers.actors) + self._attend(now, heard_all)
        if now >= self._scale_due:
            self._scale_due = now + self._settings.scaling.interval_seconds
            effects += self._fleet.decide(now)
        over = ending(self.run.stats, now, self._settings.limits)
        if now >= self._record_due:
            self._record_due = now + RECORD_SECONDS
            effects += self._expire(now)
            if self._weights.finite:
                told = self._health.look(now, self.run.stats.symptoms()) + self._exchange.named()
                effects += [Log("warning", text) for text in self.run.stats.diagnosed(told)]
                effects.append(WriteMetrics(self.run.metrics(now)))
            else:
                over = "failed", NOT_FINITE
        saving = now >= self.run.saves.deadline or self._improved(now)
        if saving and not self._weights.may_be_saved:
            over = "failed", NOT_FINITE
        if over is not None and not self._finished:
            return effects + self._finish(now, *over, final=True)
        if saving:
            effects.append(self._checkpoint(now))
        return effects

    def saved(self, now: float, version: int, error: str) -> list[Effect]:
        """What became of the last checkpoint: with an `error` it is not on the disk, and is tried again soon."""
        if not error:
            mended = self.run.saves.saved(version)
            return (
                [Log("info", f"checkpoint of version {version} is written: all is well again", own=True)]
                if mended
                else []
            )
        self.run.saves.failed(now, error)
        self._saved_best = None
        text = f"the checkpoint could not be written: {error}"
        self.run.stats.warn(text)
        return [Log("error", f"{text} (version {version})", key="checkpoint", own=True)]

    def _dismiss(self, routing_id: bytes, message: AnyMessage) -> list[Effect]:
        """After the end: who says goodbye has heard of it, who says hello has not."""
        if isinstance(message, Goodbye):
            self.run.peers.leave(routing_id)
        return [Send(routing_id, self._last_word)] if isinstance(message, Hello) else []

    def remind(self) -> list[Effect]:
        """The stop again, for all who have not left: a connection may have been broken when it was said."""
        return [Send(routing_id, self._last_word) for routing_id in self.run.peers.everyone()]

    @property
    def present(self) -> int:
        """Actors and launchers that have not left."""
        return self.run.peers.actors + len(self.run.peers.role("launcher"))

    def stop(self, now: float) -> list[Effect]:
        """The end of this epoch by a signal; the peers are told to expect the learner back."""
        return self._finish(now, "stopped", "stopped by a signal", final=False)

    def revoke(self, now: float, key_names: Collection[str]) -> list[Effect]:
        text = "was cut off: its key is not allowed any more"
        return self._all_gone(now, self.run.peers.with_keys(key_names), "warning", text)

    def _finish(self, now: float, ending: Ending, reason: str, *, final: bool) -> list[Effect]:
        """Tells every peer, and observers how it stands; a run that failed leaves neither metrics nor a checkpoint."""
        if not self._weights.may_be_saved:
            ending, reason = "failed", NOT_FINITE
        self._finished = True
        self.run.stats.state = ending
        told = reason if final else "the learner was stopped; it may come back"
        status = self._reports.fresh(now)
        effects: list[Effect] = [Send(routing_id, status) for routing_id, _ in self.run.peers.role("observer")]
        self._last_word = Stop(reason=told, final=final)
        effects += self.remind()
        if ending != "failed":
            effects += [WriteMetrics(self.run.metrics(now)), self._checkpoint(now)]
        return [*effects, Finish(ending, reason, self.run.status(now, whole_run=True))]

    def _checkpoint(self, now: float) -> SaveCheckpoint:
        spec, stats = self.run.spec, self.run.stats
        self.run.saves.begin(now)
        self._saved_best = stats.window.best_return
        return SaveCheckpoint(
            version=stats.counters.version,
            weights=self._weights.vector,
            optimizer=self._weights.state(),
            state={
                "model": spec.model,
                "epoch": spec.epoch,
                "counters": stats.saved(now),
                "moments": self._weights.moments,
            },
            score=stats.score,
        )

    def _improved(self, now: float) -> bool:
        """Whether the agent is at its best so far, and that best is not in a checkpoint."""
        window = self.run.stats.window
        section = self._settings.checkpoint
        if not section.best or not self.run.saves.may_be_early(now):
            return False
        return window.score is not None and self._saved_best != window.best_return == window.score

    def _hello(self, now: float, routing_id: bytes, hello: Hello, key_name: str, address: str) -> list[Effect]:
        if key_name and not is_name_under(key_name, hello.name):
            reason = f"a peer with the key of {key_name} is called {key_name}/..., not {hello.name}"
            return [refuse(routing_id, "name", reason)]
        roles = self.key_roles.get(key_name)
        if roles is not None and hello.role not in roles:
            reason = f"the key of {key_name} may be {' or '.join(roles)}, not {hello.role}: the learner's list says so"
            return [refuse(routing_id, "role", reason), Log("warning", f"refused: {reason}", key=f"role {key_name}")]
        place = f"key {key_name}" if key_name else f"address {address}"
        if hello.role == "actor":
            proven = self.run.peers.has_worked(hello)
            why = self.run.peers.quarantine.reason(now, place, hello.name, proven=proven)
            if why:
                return [refuse(routing_id, "quarantined", why)]
        codec = ""
        if hello.role == "actor":
            try:
                codec = self._exchange.choose_codec(hello)
            except A3cdError as error:
                return [refuse(routing_id, "codec", str(error)), Log("warning", f"{hello.name}: {error}", key="codec")]
        if (successor := self.run.peers.successor(hello)) is not None:
            return self._yield(routing_id, hello, successor)
        effects = self._replace(self.run.peers.replaced_by(hello))
        before = self.run.peers.moved(routing_id, hello, key_name)
        if before is not None:
            self._exchange.left(before)
            self._publisher.left(before)
            effects.append(Disconnect(before))
        peer, new = self.run.peers.join(routing_id, hello, now, key_name, place)
        peer.codec = codec
        self._fleet.joined(hello)
        if new and hello.role != "observer":
            origin = f" (by {hello.launcher})" if hello.launcher else ""
            effects.append(Log("info", f"{hello.role} {hello.name} on {hello.host} joined{origin}"))
        self.run.stats.joined(self.run.peers.actors)
        # One that is known has its first weights, or they are under way; else it pulls them.
        effects += self._welcome(now, routing_id, peer, with_weights=new and before is None)
        return effects + (self._fleet.orders(now) if hello.role == "launcher" else [])

    def _replace(self, routing_ids: Sequence[bytes]) -> list[Effect]:
        """Removes the predecessors of a peer that joins; the other launchers need no orders in between."""
        effects: list[Effect] = []
        for routing_id in routing_ids:
            peer = self.run.peers.replace(routing_id)
            effects += self._forgotten(routing_id, peer, "info", "was started again: the one before is removed")
        return effects

    def _yield(self, routing_id: bytes, hello: Hello, successor: Peer) -> list[Effect]:
        """Tells a launcher that still lives that the newer one of its name has its place."""
        text = (
            f"launcher {hello.name} on {hello.host} is not let in: one of its name on {successor.hello.host} came later"
        )
        self.run.stats.warn(text)
        reason = f"launcher {hello.name} on {successor.hello.host} came later; --name gives another name"
        return [refuse(routing_id, "replaced", reason), Log("warning", text, key=f"replaced {hello.name}")]

    def _welcome(self, now: float, routing_id: bytes, peer: Peer, *, with_weights: bool) -> list[Effect]:
        spec, exchange = self.run.spec, self._settings.exchange
        welcome = Welcome(
            run=spec.run,
            epoch=spec.epoch,
            a3cd=spec.versions.get("a3cd", ""),
            heartbeat_seconds=exchange.heartbeat_seconds,
            expiry_seconds=exchange.expiry_seconds,
        )
        if peer.hello.role != "actor":
            return [Send(routing_id, welcome)]
        version, body = (
            self._publisher.first(now, routing_id) if with_weights else (self.run.stats.counters.version, None)
        )
        welcome = msgspec.structs.replace(
            welcome,
            settings=self._plain_settings,
            codec=peer.codec,
            credit=exchange.credit,
            model=spec.model,
            weights_port=spec.weights_port,
            weights_format=spec.weights_format,
            version=version,
            actors=self.run.peers.actors,
            seed=spec.actor_seed(peer.seed),
        )
        effects: list[Effect] = [Send(routing_id, welcome, body)]
        if body is not None and version < self.run.stats.counters.version:
            effects += self._publisher.pulled(now, routing_id, Pull(version=version))
        return effects

    def _heartbeat(self, routing_id: bytes, peer: Peer, message: Heartbeat) -> list[Effect]:
        peer.state = message.state or peer.state
        effects: list[Effect] = [Send(routing_id, Heartbeat())]
        if message.last_error:
            peer.last_error = message.last_error
            text = cut(f"{peer.hello.name}: {message.last_error}")
            self.run.stats.warn(text)
            effects.append(Log("warning", text, key=f"error {peer.hello.name}"))
        return effects

    def _attend(self, now: float, heard_all: bool) -> list[Effect]:
        stall = self._attention.look(now, heard_all)
        self.run.peers.excuse(now, stall)
        if stall < TOLD_STALL_SECONDS:
            return []
        text = f"the learner stood still for {stall:.0f} s (a large batch, a slow disk, or a process that was stopped)"
        self.run.stats.warn(text)
        return [Log("warning", text, key="stall", own=True)]

    def _expire(self, now: float) -> list[Effect]:
        seconds = self._settings.exchange.expiry_seconds
        silent = self.run.peers.silent(now, seconds) if self._attention.has_heard(seconds) else []
        for routing_id in silent:
            if peer := self.run.peers.get(routing_id):
                self._fleet.fell_silent(peer)
        return self._all_gone(now, silent, "warning", f"has been silent for {seconds:g} s: it is removed")

    def _all_gone(
        self, now: float, routing_ids: Sequence[bytes], level: Literal["info", "warning"], text: str
    ) -> list[Effect]:
        return [effect for routing_id in routing_ids for effect in self._gone(now, routing_id, level, text)]

    def _gone(self, now: float, routing_id: bytes, level: Literal["info", "warning"], text: str) -> list[Effect]:
        """Forgets a peer and logs it; the actors that a launcher ran are ordered from the others."""
        peer = self.run.peers.leave(routing_id)
        effects = self._forgotten(routing_id, peer, level, text)
        return effects + (self._fleet.orders(now) if peer is not None and peer.hello.role == "launcher" else [])

    def _forgotten(
        self, routing_id: bytes, peer: Peer | None, level: Literal["info", "warning"], text: str
    ) -> list[Effect]:
        """What follows from a peer's leaving, and a line about it."""
        self._exchange.left(routing_id)
        self._publisher.left(routing_id)
        if peer is None or peer.hello.role == "observer":
            return []
        return [Log(level, f"{peer.hello.role} {peer.hello.name} {text}")]
