"""The learner's side of the exchange, without sockets, clocks or files: messages and time in, effects out.

    hello -> welcome -> gradient -> (checked, added up) -> optimizer step -> acknowledgement

Gradients are judged one by one as they arrive and applied together by `flush`, at most
clamp(actors / 5, 1, exchange.coalesce) to one optimizer step. Credit is never granted beyond `exchange.credit`, so
the queue in front of the one optimizer is bounded by the number of actors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from common.broadcast import Broadcast, run_mark
from common.errors import A3cdError, CodecError, WireError
from common.messages import (
    Acknowledgement,
    AnyMessage,
    FleetOrder,
    FleetReport,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Inspect,
    Pull,
    RefusalCode,
    Refused,
    Status,
    Stop,
    Verdict,
    Weights,
    Welcome,
)
from common.wire import Buffer, ProtocolError
from learner import staleness
from learner.effects import Effect, Ending, Finish, Log, Publish, Record, Save, Send
from learner.fleet import share
from learner.ledger import Ledger
from learner.peers import Peer, Peers
from learner.plan import Plan
from learner.scaling import Scaler

BAD_IN_A_ROW = 3
"""Unusable gradients after which an actor is set aside."""
RECORD_SECONDS = 1.0
"""Between two rows of metrics."""


class Store(Protocol):
    """The weights and what changes them (learner/store.py)."""

    def add(self, body: Buffer, codec: str, weight: float) -> None:
        """Adds a packed gradient to the next step; raises `CodecError` and leaves all as it was."""

    def step(self, *, scale: float, frames: int) -> None:
        """One optimizer step with what was added, at a step size times `scale`."""

    def body(self, form: str) -> bytes:
        """The weights as sent."""


class LearnerCore:
    """One run towards all its peers."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        ledger: Ledger,
        scaler: Scaler,
        choose_codec: Callable[[Collection[str], bool], str],
        now: float,
    ) -> None:
        """`choose_codec(offered, loopback)` names the codec for an actor, or raises an A3cdError."""
        self.plan, self.ledger, self.peers = plan, ledger, Peers()
        self._store, self._scaler, self._choose_codec = store, scaler, choose_codec
        self._exchange = plan.settings.exchange
        self._waiting: list[tuple[bytes, Peer, Gradient, float]] = []
        self._published = ledger.counters.version
        self._publish_due = self._record_due = now
        self._save_due = now + (plan.settings.checkpoint.every_seconds or float("inf"))
        self._expire_due = now + 1.0
        self._scale_due = now
        self._finished = False

    @property
    def deadline(self) -> float:
        """When `tick` has something to do next."""
        publish = self._publish_due if self._published != self.ledger.counters.version else float("inf")
        return min(publish, self._record_due, self._save_due, self._expire_due, self._scale_due)

    def handle(self, now: float, routing_id: bytes, message: AnyMessage, body: Buffer | None) -> list[Effect]:
        """One message from one peer."""
        if isinstance(message, Hello):
            return self._hello(now, routing_id, message)
        peer = self.peers.get(routing_id)
        if peer is None:
            return [] if isinstance(message, Goodbye) else [_refuse(routing_id, "unknown", "say hello first")]
        peer.seen = now
        match message:
            case Gradient() if peer.hello.role == "actor":
                return self._gradient(now, routing_id, peer, message, body)
            case Pull():
                return [self._weights(routing_id, message)]
            case Heartbeat():
                return self._heartbeat(routing_id, peer, message)
            case FleetReport() if peer.hello.role == "launcher":
                return self._fleet_report(routing_id, peer, message)
            case Inspect():
                return [self._report(now, routing_id)]
            case Goodbye():
                return self._goodbye(routing_id, message)
            case _:
                return [_refuse(routing_id, "role", f"a learner takes no such message from a {peer.hello.role}")]

    def malformed(self, routing_id: bytes, error: WireError) -> list[Effect]:
        """Bytes from a peer that are no message."""
        if isinstance(error, ProtocolError):
            return [
                _refuse(routing_id, "protocol", str(error)),
                Log("warning", f"a peer was refused: {error}", key="protocol"),
            ]
        return [Log("warning", f"a peer sent what is no message: {error}", key="malformed")]

    def flush(self, now: float) -> list[Effect]:
        """One optimizer step with all gradients that wait, and their acknowledgements."""
        if not self._waiting:
            return []
        waiting, self._waiting = self._waiting, []
        scale = sum(scale for *_, scale in waiting) / len(waiting)
        self._store.step(scale=scale, frames=self.ledger.counters.frames)
        self.ledger.stepped(now)
        effects: list[Effect] = []
        for routing_id, peer, header, _ in waiting:
            peer.gradients += 1
            self.ledger.applied(header)
            effects.append(self._acknowledge(routing_id, header, "applied"))
        return effects + self._publish(now) + self._limits(now)

    def tick(self, now: float) -> list[Effect]:
        """Whatever is due: broadcast, scaling, expiry, metrics, checkpoint, limits."""
        effects = self._publish(now)
        if now >= self._expire_due:
            self._expire_due = now + 1.0
            effects += self._expire(now)
        if now >= self._scale_due:
            self._scale_due = now + self.plan.settings.scaling.interval_seconds
            effects += self._scale(now)
        if now >= self._record_due:
            self._record_due = now + RECORD_SECONDS
            effects += [Record(), *self._limits(now)]
        if now >= self._save_due:
            self._save_due = now + self.plan.settings.checkpoint.every_seconds
            effects.append(Save())
        return effects

    def stop(self, now: float, ending: Ending, reason: str) -> list[Effect]:
        """Tells every peer, and observers how it stands; only a run stopped by a signal is expected back."""
        self._finished = True
        self.ledger.state = ending
        message = Stop(reason=reason, final=ending != "stopped")
        reports: list[Effect] = [self._report(now, routing_id) for routing_id, _ in self.peers.role("observer")]
        return reports + [Send(routing_id, message) for routing_id in self.peers.everyone()]

    # -- joining and leaving ------------------------------------------------------------------------------------

    def _hello(self, now: float, routing_id: bytes, hello: Hello) -> list[Effect]:
        if self.peers.is_set_aside(hello):
            return [_refuse(routing_id, "set-aside", "its gradients could not be used")]
        codec = ""
        if hello.role == "actor":
            try:
                codec = self._choose_codec(hello.codecs, hello.host == self.plan.host)
            except A3cdError as error:
                return [_refuse(routing_id, "codec", str(error)), Log("warning", f"{hello.name}: {error}", key="codec")]
        peer, new = self.peers.join(routing_id, hello, now)
        peer.codec = codec
        effects: list[Effect] = []
        if new and hello.role != "observer":
            origin = f" (by {hello.launcher})" if hello.launcher else ""
            effects.append(Log("info", f"{hello.role} {hello.name} on {hello.host} joined{origin}"))
        self.ledger.joined(self.peers.actors)
        effects.append(self._welcome(routing_id, peer))
        if hello.role == "launcher":
            effects += self._orders(self.ledger.why)
        return effects

    def _welcome(self, routing_id: bytes, peer: Peer) -> Send:
        plan, base = self.plan, self._exchange
        welcome = Welcome(
            run=plan.run,
            epoch=plan.epoch,
            heartbeat_seconds=base.heartbeat_seconds,
            expiry_seconds=base.expiry_seconds,
        )
        if peer.hello.role != "actor":
            return Send(routing_id, welcome)
        body = self._store.body(plan.weights_format)
        self.ledger.counters.weight_bytes += len(body)
        return Send(
            routing_id,
            Welcome(
                run=plan.run,
                epoch=plan.epoch,
                heartbeat_seconds=base.heartbeat_seconds,
                expiry_seconds=base.expiry_seconds,
                settings=plan.plain,
                codec=peer.codec,
                credit=base.credit,
                model=plan.model,
                weights_port=plan.weights_port,
                weights_format=plan.weights_format,
                version=self.ledger.counters.version,
                actors=self.peers.actors,
                seed=plan.settings.seed * 100_003 + peer.seed,
            ),
            body,
        )

    def _goodbye(self, routing_id: bytes, message: Goodbye) -> list[Effect]:
        peer = self.peers.leave(routing_id)
        if peer is None or peer.hello.role == "observer":
            return []
        return [Log("info", f"{peer.hello.role} {peer.hello.name} left: {message.reason}"), *self._left(peer)]

    def _expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for routing_id in self.peers.silent(now, self._exchange.expiry_seconds):
            peer = self.peers.leave(routing_id)
            if peer is not None and peer.hello.role != "observer":
                silence = now - peer.seen
                effects.append(
                    Log(
                        "warning",
                        f"{peer.hello.role} {peer.hello.name} has been silent for {silence:.0f} s: taken for gone",
                    )
                )
                effects += self._left(peer)
        return effects

    def _left(self, peer: Peer) -> list[Effect]:
        return self._orders(self.ledger.why) if peer.hello.role == "launcher" else []

    def _heartbeat(self, routing_id: bytes, peer: Peer, message: Heartbeat) -> list[Effect]:
        peer.state = message.state or peer.state
        effects: list[Effect] = [Send(routing_id, Heartbeat())]
        if message.trouble:
            peer.trouble = message.trouble
            text = f"{peer.hello.name}: {message.trouble}"
            self.ledger.warn(text)
            effects.append(Log("warning", text, key=f"trouble {peer.hello.name}"))
        return effects

    # -- gradients and weights ------------------------------------------------------------------------------------

    def _gradient(
        self, now: float, routing_id: bytes, peer: Peer, header: Gradient, body: Buffer | None
    ) -> list[Effect]:
        if (header.run, header.epoch) != (self.plan.run, self.plan.epoch):
            return [_refuse(routing_id, "unknown", f"this is run {self.plan.run}, epoch {self.plan.epoch}")]
        if self.peers.is_duplicate(peer, header.sequence):
            self.ledger.counters.duplicates += 1
            return [self._acknowledge(routing_id, header, "duplicate")]
        lag = self.ledger.counters.version - header.version
        try:
            self._check(peer, header, body, lag)
        except CodecError as error:
            return self._bad(routing_id, peer, header, str(error))
        self.ledger.received(now, header, 0 if body is None else len(body), lag)
        peer.frames += header.steps
        peer.rate.add(now, header.steps)
        if (
            limit := staleness.limit(self.plan.settings.staleness.refuse_factor, self.peers.actors)
        ) is not None and lag > limit:
            peer.stale += 1
            self.ledger.counters.stale += 1
            why = f"computed {lag} versions ago, at most {limit} are taken"
            return [self._acknowledge(routing_id, header, "stale", why), *self._limits(now)]
        scale = staleness.scale(self.plan.settings.staleness.scale, lag)
        try:
            self._store.add(body or b"", header.codec, scale)
        except CodecError as error:
            return self._bad(routing_id, peer, header, str(error))
        peer.bad_in_a_row = 0
        peer.smooth_lag(lag)
        self._waiting.append((routing_id, peer, header, scale))
        return (
            self.flush(now)
            if len(self._waiting) >= staleness.coalesce(self.peers.actors, self._exchange.coalesce)
            else []
        )

    def _check(self, peer: Peer, header: Gradient, body: Buffer | None, lag: int) -> None:
        if header.model != self.plan.model:
            raise CodecError(f"of model {header.model!r}, this run trains {self.plan.model!r}")
        if header.codec != peer.codec:
            raise CodecError(f"packed as {header.codec!r}, agreed was {peer.codec!r}")
        if lag < 0:
            raise CodecError(f"of version {header.version}, the newest is {self.ledger.counters.version}")
        if body is None:
            raise CodecError("without a body")
        self._check_figures(header)

    def _check_figures(self, header: Gradient) -> None:
        """What the settings do not allow would end the run or drown its means: such figures are not counted."""
        settings = self.plan.settings
        if header.count > settings.exchange.accumulate:
            raise CodecError(f"of {header.count} rollouts, at most {settings.exchange.accumulate} are added up")
        most = header.count * settings.algorithm.rollout * settings.environment.copies
        if header.steps > most and not settings.algorithm.whole_episodes:
            raise CodecError(f"of {header.steps} steps, {header.count} rollouts have at most {most}")
        if len(header.episodes) > header.steps:
            raise CodecError(f"of {header.steps} steps that end {len(header.episodes)} episodes")

    def _bad(self, routing_id: bytes, peer: Peer, header: Gradient, why: str) -> list[Effect]:
        peer.refused += 1
        peer.bad_in_a_row += 1
        self.ledger.counters.refused += 1
        text = f"{peer.hello.name} sent a gradient that cannot be used: {why}"
        self.ledger.warn(text)
        effects: list[Effect] = [Log("warning", text, key=f"bad {peer.hello.name}")]
        if peer.bad_in_a_row < BAD_IN_A_ROW:
            return [*effects, self._acknowledge(routing_id, header, "refused", why)]
        self.peers.set_aside(peer)
        self.peers.leave(routing_id)
        reason = f"{BAD_IN_A_ROW} gradients in a row could not be used, the last one: {why}"
        return [
            *effects,
            _refuse(routing_id, "set-aside", reason),
            Log("error", f"{peer.hello.name} is set aside: {reason}"),
        ]

    def _acknowledge(self, routing_id: bytes, header: Gradient, verdict: Verdict, why: str = "") -> Send:
        return Send(
            routing_id,
            Acknowledgement(
                sequence=header.sequence,
                verdict=verdict,
                version=self.ledger.counters.version,
                credit=self._exchange.credit,
                actors=max(1, self.peers.actors),
                why=why,
            ),
        )

    def _weights(self, routing_id: bytes, pull: Pull) -> Send:
        version = self.ledger.counters.version
        message = Weights(version=version, epoch=self.plan.epoch)
        if pull.version >= version:
            return Send(routing_id, message)
        body = self._store.body(self.plan.weights_format)
        self.ledger.counters.weight_bytes += len(body)
        return Send(routing_id, message, body)

    def _publish(self, now: float) -> list[Effect]:
        version = self.ledger.counters.version
        if version == self._published or now < self._publish_due:
            return []
        body = self._store.body(self.plan.weights_format)
        subscribers = max(1, self.peers.actors)
        budget = subscribers * len(body) * 8 / (self._exchange.egress_mbit * 1e6)
        self._publish_due = now + max(self._exchange.broadcast_ms / 1e3, budget)
        self._published = version
        self.ledger.sent(now, subscribers * len(body))
        frame = Broadcast(run_mark(self.plan.run), self.plan.epoch, version, self.plan.weights_format, body)
        return [Publish(frame.pack())]

    def _report(self, now: float, routing_id: bytes) -> Send:
        status = self.ledger.status(now, self.plan, self.peers)
        return Send(routing_id, Status(report=msgspec.to_builtins(status)))

    # -- how many actors, and until when -----------------------------------------------------------------------------

    def _scale(self, now: float) -> list[Effect]:
        decision = self._scaler.decide(self.ledger.measurement(now, self.peers.actors))
        if decision is None:
            return []
        held = decision.why.startswith("held")
        if held != self.ledger.why.startswith("held"):
            self.ledger.decided(decision, self._scaler.last_addition)
            return [Log("info", f"scaling: {decision.why}")]
        if not self.ledger.decided(decision, self._scaler.last_addition):
            return []
        return [Log("info", f"scaling: {decision.why}"), *self._orders(decision.why)]

    def _orders(self, why: str) -> list[Effect]:
        launchers = self.peers.role("launcher")
        orders = share(self.ledger.wanted, [peer.hello.slots for _, peer in launchers])
        for (_, peer), order in zip(launchers, orders, strict=True):
            peer.ordered = order
        return [
            Send(routing_id, FleetOrder(actors=order, why=why))
            for (routing_id, _), order in zip(launchers, orders, strict=True)
        ]

    def _fleet_report(self, routing_id: bytes, peer: Peer, report: FleetReport) -> list[Effect]:
        given_up = report.gave_up and not (peer.report and peer.report.gave_up)
        peer.report = report
        effects: list[Effect] = []
        if report.running + report.starting != peer.ordered:
            # The order may have been lost with its connection; nothing else would bring it again.
            effects.append(Send(routing_id, FleetOrder(actors=peer.ordered, why=self.ledger.why)))
        if given_up:
            text = f"launcher {peer.hello.name} gave up starting actors: {report.why}"
            self.ledger.warn(text)
            effects.append(Log("error", text))
        return effects

    def _limits(self, now: float) -> list[Effect]:
        if self._finished:
            return []
        over = self.ledger.over(now, self.plan.settings.limits)
        if over is None:
            return []
        ending, reason = over
        return [*self.stop(now, ending, reason), Finish(ending, reason)]


def _refuse(routing_id: bytes, code: RefusalCode, reason: str) -> Send:
    return Send(routing_id, Refused(code=code, reason=reason))
