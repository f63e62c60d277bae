"""A relay as docs/scaling.md designs it, for simulations: a learner to the actors of its site, an actor to the learner.

That actor's core joins, holds to its credit, hears weights and pulls them as every actor's does; what it sends is the
sum of what the site's actors sent. A prototype: it takes headers for honest and weights for whole, on a network that
loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from actor.core import ActorCore
from actor.effects import Effect, Prepare
from actor.outbox import Send
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.settings.codec_names import NAMES
from common.settings.sections import Settings
from common.wire.bodies.broadcast import Broadcast
from common.wire.codecs.registry import make
from common.wire.frames import Buffer, pack, split
from common.wire.messages import (
    PROTOCOL,
    Acknowledgement,
    AnyMessage,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Pull,
    Verdict,
    Weights,
    Welcome,
)
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.publisher import WELCOME_BYTES
from learner.parameters.pulls import PullQueue
from learner.peers import Peers
from learner.staleness import staleness_rule
from simulation.event_queue import EventQueue
from simulation.network import Frames, Network
from simulation.settings import LOOPBACK, Link

MOST = 16
"""Rollouts in one sum."""
TICK_SECONDS = 0.002
EGRESS_SHARE = 0.8
"""Of the site's network, for weights."""


@dataclass(frozen=True)
class Form:
    """What may differ between relays."""

    accumulate: int
    """Most rollouts in an actor's gradient."""
    actors: int = 0
    """In the whole run, by which lag is judged; 0: as many as the learner says, which counts relays."""
    relays: int = 1
    gradient_seconds: float = 0.0
    """Of the relay's processor, to read and judge one."""
    pack_seconds: float = 0.0
    """For a sum."""
    site_mbit: float = 0.0
    """What the relay's host can send to its actors; 0: without a limit."""
    link: Link = LOOPBACK
    """To the learner."""


class SumPlayer(Player):
    """Plays nothing: its gradient is the sum of others'."""

    contribution = Gradient

    def __init__(
        self, codec: str, parameters: int, bound: GradientBound, loaded: Callable[[int, bytes], object]
    ) -> None:
        self._codec = make(codec, parameters)
        self._bound = bound
        self._loaded = loaded
        self._sum = np.zeros(parameters, np.float32)
        self._scratch = np.zeros(parameters, np.float32)
        self._summary = RolloutSummary()

    @property
    def pending(self) -> int:
        return self._summary.count

    def add(self, header: Gradient, body: Buffer) -> None:
        """Raises CodecError."""
        gradient = self._codec.read(body, self._scratch)
        self._bound.check(float(np.linalg.norm(gradient)), header.codec, header.count, gradient.size)
        self._sum += gradient
        fields = {name: getattr(header, name) for name in RolloutSummary.__dataclass_fields__}
        self._summary.add(RolloutSummary(**fields))

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:  # noqa: ARG002  weights are whole
        self._loaded(version, bytes(body))
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:  # noqa: ARG002  nothing is fed back
        summary, body = self._summary, self._codec.encode(self._sum)
        self.forget()
        return summary, body

    def forget(self) -> None:
        self._sum.fill(0)
        self._summary = RolloutSummary()

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Waiting:
    routing_id: bytes
    header: Gradient
    body: Buffer


class RelayNode:
    """A relay's process, from now on. Actors connect to `site`; it is itself what listens there."""

    def __init__(self, queue: EventQueue, learner: Network, number: int, parameters: int, form: Form) -> None:
        self.site = Network(queue, number, form.site_mbit)
        self.worked = 0.0
        """Seconds."""
        self.stale = 0
        """Gradients that it did not take."""
        self.passed_on = 0
        """Broadcasts."""
        self._queue = queue
        self._parameters = parameters
        self._form = form
        self._peers = Peers()
        self._mbit = EGRESS_SHARE * form.site_mbit or 1e6
        self._pulls = PullQueue(self._mbit)
        self._welcome: Welcome | None = None
        """As the learner said it."""
        self._weights: tuple[int, bytes] | None = None
        self._hellos: list[tuple[bytes, Hello]] = []
        """That came before there were weights."""
        self._broadcast: bytes | None = None
        """The newest, until that before is through."""
        self._free = queue.now
        """When it is."""
        self._waiting: deque[_Waiting] = deque()
        """Gradients that are in no sum yet."""
        self._done = queue.now
        """When the processor has done what it has to do."""
        self.uplink = Uplink(queue, learner, self, f"relay-{number}", form)
        self.site.learner_back(self)
        self._tick()

    def _tick(self) -> None:
        self.uplink.tick()
        self.fill()
        self._answer_pulls()
        self._pass_on()
        self._queue.after(TICK_SECONDS, self._tick)

    def work(self, seconds: float, action: Callable[[], object]) -> None:
        """Does one thing after the other."""
        self.worked += seconds
        self._done = max(self._done, self._queue.now) + seconds
        self._queue.at(self._done, action)

    # -- weights -------------------------------------------------------------------------------------------------------

    def welcomed(self, welcome: Welcome, settings: Settings) -> SumPlayer:
        self._welcome = welcome
        self._staleness = staleness_rule(settings)
        return SumPlayer(welcome.codec, self._parameters, GradientBound(settings.algorithm.max_grad_norm), self.loaded)

    def loaded(self, version: int, body: bytes) -> None:
        self._weights = version, body
        hellos, self._hellos = self._hellos, []
        for routing_id, hello in hellos:
            self._join(routing_id, hello)

    def broadcast(self, frame: bytes) -> None:
        self._broadcast = frame
        self._pass_on()

    def _pass_on(self) -> None:
        """As it is, once the one before is through; the newest of several."""
        now = self._queue.now
        if self._broadcast is not None and now >= self._free:
            self.site.publish(self._broadcast)
            self.passed_on += 1
            self._free = now + self._peers.actors * len(self._broadcast) * 8e-6 / self._mbit
            self._broadcast = None

    def _answer_pulls(self) -> None:
        now = self._queue.now
        while self._weights is not None and (pull := self._pulls.next(now)) is not None:
            (routing_id, _), (version, body) = pull, self._weights
            self._pulls.sent(now, routing_id, version, len(body))
            self._pulls.spent(now, len(body))
            self._send(routing_id, Weights(version=version, epoch=self._epoch), body)

    @property
    def _epoch(self) -> int:
        assert self._welcome is not None
        return self._welcome.epoch

    # -- actors --------------------------------------------------------------------------------------------------------

    def receive(self, routing_id: bytes, address: str, frames: Frames) -> None:  # noqa: ARG002  there are no keys
        message, body = split(frames, by_learner=True)
        match message:
            case Hello() if self._weights is None:
                self._hellos.append((routing_id, message))
            case Hello():
                self._join(routing_id, message)
            case Gradient() if body is not None:
                self.work(self._form.gradient_seconds, partial(self._judge, _Waiting(routing_id, message, body)))
            case Pull():
                self._pulls.ask(self._queue.now, routing_id, message)
            case Heartbeat():
                self._send(routing_id, Heartbeat())
            case Goodbye():
                self._peers.leave(routing_id)

    def _join(self, routing_id: bytes, hello: Hello) -> None:
        """The learner's welcome, with a seed that no other relay gives; small weights are in it, others are pulled."""
        assert self._welcome is not None and self._weights is not None
        peer, _ = self._peers.join(routing_id, hello, self._queue.now)
        exchange = {**self._welcome.settings["exchange"], "accumulate": self._form.accumulate}
        version, body = self._weights
        welcome = msgspec.structs.replace(
            self._welcome,
            settings={**self._welcome.settings, "exchange": exchange},
            version=version,
            actors=self._actors,
            seed=self._welcome.seed + (1 + peer.seed) * self._form.relays,
        )
        self._send(routing_id, welcome, body if len(body) <= WELCOME_BYTES else None)

    @property
    def _actors(self) -> int:
        return self._form.actors or self.uplink.actors

    def _judge(self, one: _Waiting) -> None:
        peer = self._peers.get(one.routing_id)
        if peer is None or self._weights is None:
            return
        lag = self._weights[0] - one.header.version
        limit = self._staleness.limit(self._actors)
        if self._peers.is_duplicate(peer, one.header.sequence):
            if one not in self._waiting:
                self._answer(one, "duplicate")
        elif limit is not None and lag > limit:
            self.stale += 1
            self._answer(one, "stale")
        else:
            self._waiting.append(one)
            self.fill()

    def fill(self) -> None:
        """Whoever is in the sum is answered; the sum goes when there is credit."""
        player = self.uplink.player
        while player and self._waiting and player.pending + self._waiting[0].header.count <= MOST:
            one = self._waiting.popleft()
            player.add(one.header, one.body)
            self._answer(one, "applied")
        self.uplink.send_sum()

    def _answer(self, one: _Waiting, verdict: Verdict) -> None:
        assert self._welcome is not None and self._weights is not None
        self._send(
            one.routing_id,
            Acknowledgement(
                sequence=one.header.sequence,
                verdict=verdict,
                version=self._weights[0],
                credit=self._welcome.credit,
                actors=self._actors,
            ),
        )

    def _send(self, routing_id: bytes, message: AnyMessage, body: bytes | None = None) -> None:
        self.site.send_down(routing_id, [pack(message)] if body is None else [pack(message), body])


class Uplink:
    """The relay as the learner knows it: an actor. The shell of its core, without anything to play."""

    def __init__(self, queue: EventQueue, learner: Network, relay: RelayNode, name: str, form: Form) -> None:
        hello = Hello(
            protocol=PROTOCOL, role="actor", name=name, incarnation=name, host=name, pid=1, codecs=list(NAMES)
        )
        self.core = ActorCore(hello, queue.now)
        self.player: SumPlayer | None = None
        self.actors = 1
        """In the run, as the learner counts them."""
        self._queue = queue
        self._learner = learner
        self._relay = relay
        self._pack_seconds = form.pack_seconds
        self._connection = learner.connect(name.encode(), self, form.link, "10.1.0.1")

    def receive(self, frames: Frames) -> None:
        message, body = split(frames)
        if isinstance(message, Acknowledgement | Welcome):
            self.actors = max(1, message.actors)
        self._do(self.core.handle(self._queue.now, message, body))
        self._relay.fill()

    def hear(self, frame: bytes) -> None:
        self._do(self.core.news(self._queue.now, Broadcast.unpack(frame)))
        self._relay.broadcast(frame)

    def connected(self) -> None:
        self.core.connected(self._queue.now)

    def arrived(self, size: int) -> None:
        self.core.membership.alive(self._queue.now)
        self.core.outbox.arrived(self._queue.now, size)

    def tick(self) -> None:
        self._do(self.core.tick(self._queue.now))

    def send_sum(self) -> None:
        if self.player is not None and self.player.pending:
            self._do(self.core.advanced(self._queue.now))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message=Gradient()):
                    self._relay.work(self._pack_seconds, partial(self._send, effect))
                case Send():
                    self._send(effect)
                case Prepare(welcome, settings, body):
                    self.core.player = self.player = self._relay.welcomed(welcome, settings)
                    self._connection.subscribed = True
                    if body is not None:
                        self.player.load(welcome.version, body)

    def _send(self, effect: Send) -> None:
        frames = [pack(effect.message)] if effect.body is None else [pack(effect.message), bytes(effect.body)]
        if not self._learner.send_up(self._connection, frames):
            self.core.unsent(self._queue.now, effect)
