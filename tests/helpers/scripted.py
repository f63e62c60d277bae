"""A learner whose messages a test chooses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np
import zmq

from common.errors import UnavailableError
from common.host.addresses import Address
from common.rl.environments.make import make
from common.rl.networks.model import build
from common.settings.sections import Settings
from common.wire import sockets
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.frames import Buffer, pack, split
from common.wire.messages import Acknowledgement, AnyMessage, Gradient, Hello, Message
from tests.helpers.run import welcome_of

PATIENCE_MS = 30_000
M = TypeVar("M", bound=Message)


class Learner:
    """A learner's sockets; the test reads the actor's messages one by one, and chooses the answers."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], settings: Settings) -> None:
        self._context = context
        listeners = sockets.reserve_pair(Address("127.0.0.1", 0))
        self.address = Address("127.0.0.1", listeners[0].getsockname()[1])
        self._router, self._publisher = sockets.router(context, 2**20), sockets.publisher(context)
        sockets.bind(self._router, listeners[0])
        sockets.bind(self._publisher, listeners[1])
        self._settings = settings
        environments = make(settings.environment, num_envs=1, seed=0)
        flat = build(settings, environments.observation, environments.action).flat
        environments.close()
        self.model, self.size = flat.hash, flat.size
        self._actor = b""

    def hear(self, kind: type[M], good: Callable[[M], object] = lambda _: True) -> tuple[M, Buffer | None]:
        """Returns the next message of this kind for which `good` is true; others are dropped."""
        while self._router.poll(PATIENCE_MS):
            self._actor, *frames = self._router.recv_multipart()
            message, body = split(frames)
            if isinstance(message, kind) and good(message):
                return message, body
        raise AssertionError(f"no {kind.__name__}")

    def say(self, message: AnyMessage, body: bytes | None = None) -> None:
        header = [self._actor, pack(message)]
        self._router.send_multipart(header if body is None else [*header, body])

    def cut(self) -> None:
        """Breaks every connection; peers may connect again."""
        self._router.close(linger=0)
        self._router = sockets.router(self._context, 2**20)
        until = time.monotonic() + PATIENCE_MS / 1000
        while True:
            try:
                sockets.bind(self._router, sockets.reserve(self.address))
                return
            except UnavailableError:  # ZeroMQ's thread has not closed the listener yet
                assert time.monotonic() < until, "the port stays taken"
                time.sleep(0.01)

    def weights(self, value: float) -> bytes:
        return np.full(self.size, value, np.float32).tobytes()

    def welcome(self, **changed: Any) -> Hello:
        hello, _ = self.hear(Hello)
        fields = {
            "settings": msgspec.to_builtins(self._settings),
            "heartbeat_seconds": 0.05,
            "model": self.model,
            "weights_port": self.address.port + 1,
            "version": 0,
            "seed": 3,
        }
        self.say(welcome_of(**(fields | changed)), self.weights(0.0))
        return hello

    def acknowledge(self, gradient: Gradient, version: int = 0) -> None:
        self.say(Acknowledgement(sequence=gradient.sequence, verdict="applied", version=version, credit=1, actors=1))

    def publish(self, version: int, epoch: int = 1) -> None:
        frame = Broadcast(run_mark("a-run"), epoch, version, "fp32", self.weights(0.01 * version))
        self._publisher.send(frame.pack())
