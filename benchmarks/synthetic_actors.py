"""Many synthetic actors in one process: real messages over real sockets, but no environment."""

from __future__ import annotations

import heapq
import math
import platform
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import zmq

from common.host.addresses import Address
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.frames import pack, split
from common.wire.messages import (
    PROTOCOL,
    Acknowledgement,
    AnyMessage,
    Gradient,
    Heartbeat,
    Hello,
    Inspect,
    Refused,
    Status,
    Welcome,
)

PATIENCE_SECONDS = 120.0
"""Longest wait for the learner to listen, and for all actors to be welcome."""
HELLO_SECONDS = 2.0
"""Interval between hellos of an actor that is not welcome yet; its connection may end before the first one is read.

While a learner packs the weights of a large network, it accepts no new connections."""
OBSERVER = b"observer"
VERSION = struct.Struct("<16xQ")
"""Layout of the version in a broadcast (common.wire.bodies.broadcast); nothing else of it is read here."""


@dataclass
class Actor:
    """The state of one synthetic actor."""

    name: bytes
    subscriber: zmq.Socket[bytes]
    credit: int
    version: int
    due: float
    """When the next gradient is due according to --rate."""
    heartbeat_due: float
    sequence: int = 0
    sent: dict[int, float] = field(default_factory=dict)
    """Times at which unanswered gradients were sent, by sequence number."""
    broadcasts: int = 0


class Swarm:
    """All actors on one ROUTER socket, with one connection per actor: to the learner they are separate peers."""

    def __init__(self, address: Address, actors: int, codec: str, rate: float) -> None:
        self.codec = codec
        self._period = 1.0 / rate if rate else 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, actors + 16)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._actors: dict[bytes, Actor] = {}
        self._ready: list[tuple[float, bytes]] = []
        """Actors that may send, by the time from which they may (a heap)."""
        self.delays: list[float] = []
        """Delays of the answers since `run` began, in seconds."""
        self._address = address
        self.welcome = self._join([OBSERVER])

    def join(self, actors: int) -> None:
        """Let `actors` actors join the run."""
        self.welcome = self._join([f"actor-{number}".encode() for number in range(actors)])

    def _until_sent(self, name: bytes, message: AnyMessage) -> None:
        """Send a message, again and again until its new connection is there."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._socket.send_multipart([name, pack(message)], zmq.NOBLOCK)
            except zmq.ZMQError:
                if time.monotonic() > until:
                    raise SystemExit("not all could connect: is the limit of open files high enough?") from None
                time.sleep(0.01)
            else:
                return

    def _join(self, names: Sequence[bytes]) -> Welcome:
        for name in names:
            self._socket.setsockopt(zmq.CONNECT_ROUTING_ID, name)
            self._socket.connect(str(self._address))
        until = time.monotonic() + PATIENCE_SECONDS
        said, missing = -math.inf, set(names)
        while True:
            now = time.monotonic()
            if now > until:
                raise SystemExit(f"{len(missing)} were not welcome after {PATIENCE_SECONDS:.0f} s")
            if now > said + HELLO_SECONDS:
                said = now
                for name in missing:
                    self._until_sent(name, hello(name.decode(), self.codec))
            if not self._socket.poll(1000):
                continue
            name, message = self._receive()
            if isinstance(message, Refused):
                raise SystemExit(f"{name.decode()} was refused: {message.reason}")
            if not isinstance(message, Welcome) or name not in missing:
                continue
            missing.discard(name)
            if name != OBSERVER:
                self._actors[name] = self._welcomed(name, message, len(self._actors) / len(names))
            if not missing:
                return message

    def _welcomed(self, name: bytes, message: Welcome, share: float) -> Actor:
        """Return a new actor, whose first times are this share of the intervals, so that not all send at once."""
        weights = str(self._address.with_port(message.weights_port))
        now = time.monotonic()
        return Actor(
            name,
            sockets.subscriber(self._context, weights, 2**30),
            credit=message.credit or 1,
            version=message.version,
            due=now + share * self._period,
            heartbeat_due=now + share * message.heartbeat_seconds,
        )

    def begin(self, bodies: Sequence[bytes], settings: Settings) -> None:
        """Prepare the messages; from now on the first gradients are due."""
        self._bodies = bodies
        self._steps = settings.environment.num_envs * settings.algorithm.rollout_length
        self._statistics = dict.fromkeys(("policy_loss", "value_loss", "entropy", "gradient_norm", "ratio", "kl"), 0.5)
        self._ready = [(actor.due, name) for name, actor in self._actors.items()]
        heapq.heapify(self._ready)
        self._beats = [(actor.heartbeat_due, name) for name, actor in self._actors.items()]
        heapq.heapify(self._beats)

    def run(self, seconds: float) -> float:
        """Send gradients for `seconds`; return the seconds that it really took."""
        self.delays = []
        begun = now = time.monotonic()
        until = begun + seconds
        while now < until:
            while self._ready and self._ready[0][0] <= now:
                self._send(now, self._actors[heapq.heappop(self._ready)[1]])
            while self._beats[0][0] <= now:
                self._beat(now, self._actors[heapq.heappop(self._beats)[1]])
            due = min(until, self._beats[0][0], self._ready[0][0] if self._ready else until)
            if self._socket.poll(max(0, int(1e3 * (due - now)))):
                self._take()
            now = time.monotonic()
        return now - begun

    def _take(self) -> None:
        """Read waiting messages, a bounded number."""
        now = time.monotonic()
        for _ in range(64):
            try:
                name, message = self._receive(zmq.NOBLOCK)
            except zmq.Again:
                return
            if isinstance(message, Acknowledgement):
                self._answered(now, self._actors[name], message)
            elif isinstance(message, Refused):
                raise SystemExit(f"{name.decode()} was refused: {message.reason}")

    def _answered(self, now: float, actor: Actor, message: Acknowledgement) -> None:
        self.delays.append(now - actor.sent.pop(message.sequence))
        if len(actor.sent) == actor.credit - 1:
            heapq.heappush(self._ready, (max(now, actor.due), actor.name))

    def _send(self, now: float, actor: Actor) -> None:
        self._take_weights(actor)
        actor.sequence += 1
        header = Gradient(
            run=self.welcome.run,
            epoch=self.welcome.epoch,
            sequence=actor.sequence,
            version=actor.version,
            model=self.welcome.model,
            codec=self.codec,
            steps=self._steps,
            emulator_frames=self._steps,
            statistics=self._statistics,
        )
        body = self._bodies[actor.sequence % len(self._bodies)]
        self._socket.send_multipart([actor.name, pack(header), body], copy=len(body) < 2**16)
        actor.sent[actor.sequence] = now
        actor.due = max(actor.due + self._period, now - self._period)
        if len(actor.sent) < actor.credit:
            heapq.heappush(self._ready, (max(now, actor.due), actor.name))

    def _take_weights(self, actor: Actor) -> None:
        """Take the version of the newest weights that have arrived; their body is ignored."""
        try:
            frame = actor.subscriber.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        (actor.version,) = VERSION.unpack_from(frame.buffer)
        actor.broadcasts += 1

    def _beat(self, now: float, actor: Actor) -> None:
        self._socket.send_multipart([actor.name, pack(Heartbeat(state="plays"))])
        heapq.heappush(self._beats, (now + self.welcome.heartbeat_seconds, actor.name))

    def _receive(self, flags: int = 0) -> tuple[bytes, AnyMessage]:
        name, *frames = self._socket.recv_multipart(flags)
        return name, split(frames)[0]

    @property
    def broadcasts(self) -> int:
        """Number of broadcasts that all actors have received."""
        return sum(actor.broadcasts for actor in self._actors.values())

    def status(self) -> dict[str, Any]:
        """Return the learner's status report; answers to gradients are handled while waiting for it."""
        self._socket.send_multipart([OBSERVER, pack(Inspect())])
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if self._socket.poll(1000):
                name, message = self._receive()
                if isinstance(message, Status):
                    return message.report
                if isinstance(message, Acknowledgement):
                    self._answered(time.monotonic(), self._actors[name], message)
        raise SystemExit("the learner tells no status")

    def close(self) -> None:
        for actor in self._actors.values():
            actor.subscriber.close(linger=0)
        self._socket.close(linger=0)
        self._context.term()


def hello(name: str, codec: str) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        role="observer" if name == OBSERVER.decode() else "actor",
        name=name,
        incarnation=f"incarnation-{name}",
        host=platform.node(),
        pid=1,
        codecs=[codec],
    )
