"""A peer that talks to a learner over its sockets, as an actor or an observer does, message by message."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import zmq

from common.host.addresses import Address
from common.wire.frames import Buffer, pack, split
from common.wire.messages import Acknowledgement, AnyMessage, Hello, Message, Welcome
from tests.helpers.run import gradient_of, hello_of

PATIENCE_MS = 30_000
M = TypeVar("M", bound=Message)


class Peer:
    """Talks to a learner as an actor does."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: Address) -> None:
        self._context, self.address = context, address
        self.dealer = context.socket(zmq.DEALER)
        self.dealer.connect(str(address))
        self.welcome: Welcome
        self._sequence = 0

    def say(self, message: AnyMessage, body: bytes | None = None) -> None:
        self.dealer.send_multipart([pack(message)] if body is None else [pack(message), body])

    def hear(self, kind: type[M]) -> tuple[M, Buffer | None]:
        """Returns the next message of this kind; others are dropped."""
        while self.dealer.poll(PATIENCE_MS):
            message, body = split(self.dealer.recv_multipart())
            if isinstance(message, kind):
                return message, body
        raise AssertionError(f"no {kind.__name__}")

    def join(self, hello: Hello | None = None) -> None:
        self.say(hello or hello_of("a", host="elsewhere"))
        self.welcome, body = self.hear(Welcome)
        self.weights = np.frombuffer(body or b"", np.float32).copy()

    def push(
        self, value: float = 1.0, version: int = 0, steps: int = 20, episode_return: float = 7.0
    ) -> Acknowledgement:
        """Sends a gradient whose elements are all `value`; returns its acknowledgement."""
        welcome = self.welcome
        self._sequence += 1
        header = gradient_of(
            self._sequence,
            version,
            run=welcome.run,
            epoch=welcome.epoch,
            model=welcome.model,
            codec=welcome.codec,
            steps=steps,
            emulator_frames=steps,
            episodes=[(episode_return, steps, 0.5)],
        )
        self.say(header, np.full(self.weights.size, value, np.float32).tobytes())
        return self.hear(Acknowledgement)[0]

    def subscribe(self) -> zmq.Socket[bytes]:
        subscriber = self._context.socket(zmq.SUB)
        subscriber.setsockopt(zmq.SUBSCRIBE, b"")
        subscriber.connect(str(self.address.with_port(self.welcome.weights_port)))
        return subscriber
