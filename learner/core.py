"""The learner's side of the exchange, without sockets, clocks or files: messages and time in, effects out.

    hello -> welcome -> gradient -> (judged, added up) -> optimizer step -> acknowledgement

Joining and leaving is here; gradients come in by `learner.exchange.gradients`, weights go out by
`learner.parameters.publisher`, and `learner.fleet` decides how many actors there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import msgspec

from common.errors import A3cdError, WireError
from common.host.security.names import is_name_under
from common.wire.frames import Buffer, ProtocolError
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
    Status,
    Stop,
    Welcome,
)
from learner.effects import Effect, Ending, Finish, Log, Record, Save, Send, refuse
from learner.exchange.actions import Inference, Network
from learner.exchange.gradients import Intake
from learner.fleet import Fleet
from learner.parameters.publisher import Outlet
from learner.peers import Peer, Peers
from learner.run_spec import Plan, Store
from learner.run_stats import Ledger
from learner.scaling import Scaler

RECORD_SECONDS = 1.0
"""Between two rows of metrics."""
EXPIRE_SECONDS = 1.0
"""Between two looks for peers that fell silent."""
BEST_SECONDS = 5.0
"""Between two checkpoints for the sake of a new best mean return."""


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
        network: Network | None = None,
    ) -> None:
        """`choose_codec(offered, loopback)` names the codec for an actor, or raises an A3cdError; `network` acts for
        actors that hold environments only (exchange.kind = "actions")."""
        self.plan, self.ledger, self.peers = plan, ledger, Peers()
        self._choose_codec = choose_codec
        self._intake = Intake(plan, store, ledger, self.peers)
        self._inference = None if network is None else Inference(plan, network, store, ledger, self.peers)
        self._outlet = Outlet(plan, store, ledger, now)
        self._fleet = Fleet(scaler, ledger, self.peers)
        self._record_due = self._scale_due = now
        self._save_due = now + (plan.settings.checkpoint.every_seconds or math.inf)
        self._expire_due = now + EXPIRE_SECONDS
        self._saved, self._saved_best = now, ledger.window.best_return
        self._finished = False

    @property
    def deadline(self) -> float:
        """When `flush` or `tick` has something to do next."""
        return min(
            *(self._intake.deadline, self._outlet.deadline),
            math.inf if self._inference is None else self._inference.deadline,
            *(self._record_due, self._save_due, self._expire_due, self._scale_due),
        )

    def handle(
        self, now: float, routing_id: bytes, message: AnyMessage, body: Buffer | None, owner: str = ""
    ) -> list[Effect]:
        """One message from one peer; `owner` is the name of the key it came in with, empty without keys."""
        if isinstance(message, Hello):
            return self._hello(now, routing_id, message, owner)
        peer = self.peers.get(routing_id)
        if peer is None or peer.owner != owner:
            return [] if isinstance(message, Goodbye) else [refuse(routing_id, "unknown", "say hello first")]
        peer.seen = now
        match message:
            case Observe() if peer.hello.role == "actor" and self._inference is not None:
                effects = self._inference.take(now, routing_id, peer, message, body)
                return effects + (self.flush(now) if self._inference.ripe else self._limits(now))
            case Contribution() if peer.hello.role == "actor" and self._inference is None:
                effects = self._intake.take(now, routing_id, peer, message, body)
                effects = self._outlet.ahead_of_answers(now, effects)
                return effects + (self.flush(now) if self._intake.full else self._limits(now))
            case Pull() if peer.hello.role == "actor":
                return self._outlet.pulled(now, routing_id, message)
            case Heartbeat():
                return self._heartbeat(routing_id, peer, message)
            case FleetReport() if peer.hello.role == "launcher":
                return self._fleet.reported(routing_id, peer, message)
            case Inspect():
                return [self._report(now, routing_id)]
            case Goodbye():
                return self._gone(routing_id, Log("info", f"left: {message.reason}"))
            case _:
                return [refuse(routing_id, "role", f"a learner takes no such message from a {peer.hello.role}")]

    def malformed(self, routing_id: bytes, error: WireError) -> list[Effect]:
        """Bytes from a peer that are no message."""
        if isinstance(error, ProtocolError):
            return [
                refuse(routing_id, "protocol", str(error)),
                Log("warning", f"a peer was refused: {error}", key="protocol"),
            ]
        return [Log("warning", f"a peer sent what is no message: {error}", key="malformed")]

    def answer(self, now: float) -> list[Effect]:
        """Actions for whoever waits for them; before `flush`, which takes its time."""
        return [] if self._inference is None else self._inference.answer(now)

    def flush(self, now: float) -> list[Effect]:
        """One optimizer step with all gradients that wait, their acknowledgements, and a broadcast if one is due.

        With staleness.policy = "synchronous" it is taken only once enough actors have sent, or their time is up.
        """
        if self._inference is not None:
            self._inference.step(now)
            return self._limits(now)
        effects = self._outlet.ahead_of_answers(now, self._intake.step(now))
        return effects + self._publish(now) + self._limits(now)

    def tick(self, now: float) -> list[Effect]:
        """Whatever is due: broadcast, scaling, expiry, metrics, checkpoint, limits."""
        effects = self._publish(now)
        if now >= self._expire_due:
            self._expire_due = now + EXPIRE_SECONDS
            effects += self._expire(now)
        if now >= self._scale_due:
            self._scale_due = now + self.plan.settings.scaling.interval_seconds
            effects += self._fleet.decide(now)
        if now >= self._record_due:
            self._record_due = now + RECORD_SECONDS
            effects += [Record(), *self._limits(now)]
        if now >= self._save_due or self._improved(now):
            self._save_due = now + (self.plan.settings.checkpoint.every_seconds or math.inf)
            self._saved, self._saved_best = now, self.ledger.window.best_return
            effects.append(Save())
        return effects

    def _improved(self, now: float) -> bool:
        """Whether the agent is at its best so far, and that best is not in a checkpoint."""
        window, section = self.ledger.window, self.plan.settings.checkpoint
        if not (section.best and section.every_seconds):
            return False
        if now - self._saved < BEST_SECONDS or window.best_return == self._saved_best:
            return False
        return window.full and window.mean_return == window.best_return

    def stop(self, now: float, ending: Ending, reason: str) -> list[Effect]:
        """Tells every peer, and observers how it stands; only a run stopped by a signal is expected back."""
        self._finished = True
        self.ledger.state = ending
        message = Stop(reason=reason, final=ending != "stopped")
        reports: list[Effect] = [self._report(now, routing_id) for routing_id, _ in self.peers.role("observer")]
        return reports + [Send(routing_id, message) for routing_id in self.peers.everyone()]

    def revoke(self, owners: Collection[str]) -> list[Effect]:
        """Peers whose keys are not allowed any more are gone."""
        held = [routing_id for routing_id in self.peers.everyone() if self.peers.owner(routing_id) in owners]
        told = Log("warning", "was cut off: its key is not allowed any more")
        return [effect for routing_id in held for effect in self._gone(routing_id, told)]

    def _hello(self, now: float, routing_id: bytes, hello: Hello, owner: str) -> list[Effect]:
        if owner and not is_name_under(owner, hello.name):
            return [
                refuse(routing_id, "name", f"a peer with the key of {owner} is called {owner}/..., not {hello.name}")
            ]
        if self.peers.is_set_aside(hello):
            return [refuse(routing_id, "set-aside", "its gradients could not be used")]
        codec = ""
        if hello.role == "actor" and self._inference is None:
            try:
                codec = self._choose_codec(hello.codecs, hello.host == self.plan.host)
            except A3cdError as error:
                return [refuse(routing_id, "codec", str(error)), Log("warning", f"{hello.name}: {error}", key="codec")]
        told = Log("info", "was started anew: the one before is taken for gone")
        before = [self._gone(one, told) for one in self.peers.replaced_by(hello)]
        effects = [effect for each in before for effect in each]
        peer, new = self.peers.join(routing_id, hello, now, owner)
        peer.codec = codec
        if new and hello.role != "observer":
            origin = f" (by {hello.launcher})" if hello.launcher else ""
            effects.append(Log("info", f"{hello.role} {hello.name} on {hello.host} joined{origin}"))
        self.ledger.joined(self.peers.actors)
        effects += self._welcome(now, routing_id, peer)
        return effects + (self._fleet.orders() if hello.role == "launcher" else [])

    def _welcome(self, now: float, routing_id: bytes, peer: Peer) -> list[Effect]:
        plan, exchange = self.plan, self.plan.settings.exchange
        welcome = Welcome(
            run=plan.run,
            epoch=plan.epoch,
            heartbeat_seconds=exchange.heartbeat_seconds,
            expiry_seconds=exchange.expiry_seconds,
        )
        if peer.hello.role != "actor":
            return [Send(routing_id, welcome)]
        version, body = self._outlet.snapshot(now)
        welcome = msgspec.structs.replace(
            welcome,
            settings=plan.plain,
            codec=peer.codec,
            credit=exchange.credit,
            model=plan.model,
            weights_port=plan.weights_port,
            weights_format=plan.weights_format,
            version=version,
            actors=self.peers.actors,
            seed=plan.actor_seed(peer.seed),
        )
        effects: list[Effect] = [Send(routing_id, welcome, body)]
        if version < self.ledger.counters.version:
            effects += self._outlet.pulled(now, routing_id, Pull(version=version))
        return effects

    def _heartbeat(self, routing_id: bytes, peer: Peer, message: Heartbeat) -> list[Effect]:
        peer.state = message.state or peer.state
        effects: list[Effect] = [Send(routing_id, Heartbeat())]
        if message.trouble:
            peer.trouble = message.trouble
            text = f"{peer.hello.name}: {message.trouble}"
            self.ledger.warn(text)
            effects.append(Log("warning", text, key=f"trouble {peer.hello.name}"))
        return effects

    def _expire(self, now: float) -> list[Effect]:
        seconds = self.plan.settings.exchange.expiry_seconds
        told = Log("warning", f"has been silent for {seconds:g} s: taken for gone")
        gone = [self._gone(routing_id, told) for routing_id in self.peers.silent(now, seconds)]
        return [effect for effects in gone for effect in effects]

    def _gone(self, routing_id: bytes, told: Log) -> list[Effect]:
        """Forgets a peer and tells of it; what a launcher ran is ordered from the others."""
        peer = self.peers.leave(routing_id)
        if self._inference is not None:
            self._inference.left(routing_id)
        if peer is None or peer.hello.role == "observer":
            return []
        line = Log(told.level, f"{peer.hello.role} {peer.hello.name} {told.text}")
        return [line, *(self._fleet.orders() if peer.hello.role == "launcher" else [])]

    def _publish(self, now: float) -> list[Effect]:
        return self._outlet.publish(now, self.peers.actors)

    def _report(self, now: float, routing_id: bytes) -> Send:
        status = self.ledger.status(now, self.plan, self.peers)
        return Send(routing_id, Status(report=msgspec.to_builtins(status)))

    def _limits(self, now: float) -> list[Effect]:
        over = None if self._finished else self.ledger.over(now, self.plan.settings.limits)
        if over is None:
            return []
        ending, reason = over
        return [*self.stop(now, ending, reason), Finish(ending, reason)]
