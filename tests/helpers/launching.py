"""A launcher in this thread, its learner's side of the wire in another, and a backend without processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import zmq

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire.frames import pack, unpack
from common.wire.messages import AnyMessage, FleetOrder, Hello, Message, Welcome
from deploy.backends.base import Backend, Ended, Observation, Place
from deploy.backends.runner import ToolError
from deploy.launcher import shell
from tests.helpers.beside import beside

M = TypeVar("M", bound=Message)


class Learner:
    """The learner's side of the wire; the test decides what it does."""

    def __init__(self, port: int = 0) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.address = Address.parse(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self.peer = b""

    def hear(self, kind: type[M], where: Callable[[M], bool] = lambda _: True) -> M:
        """Returns the next message of this kind that satisfies `where`; others are dropped."""
        while self.socket.poll(10_000):
            self.peer, header = self.socket.recv_multipart()
            message = unpack(header)
            if isinstance(message, kind) and where(message):
                return message
        raise AssertionError(f"no {kind.__name__}")

    def say(self, message: AnyMessage) -> None:
        self.socket.send_multipart([self.peer, pack(message)])

    def welcome(self, actors: int, heartbeat_seconds: float = 0.05) -> None:
        self.hear(Hello)
        self.say(Welcome(run="r", epoch=1, heartbeat_seconds=heartbeat_seconds, expiry_seconds=30.0))
        self.say(FleetOrder(actors=actors, why="test"))

    def close(self) -> None:
        self.socket.close(0)
        self.context.term()


class Actors(Backend):
    """A backend whose actors are only numbers."""

    interval = 0.01

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.ended: list[Ended] = []
        """Actors that the test has ended; the next observation notices them."""
        self.calls: list[str] = []
        self.problem = ""
        self._statuses: dict[int, Ended] = {}

    def shown(self, slot: int) -> str:
        return f"actor {slot}"

    def start(self, slots: Sequence[int]) -> None:
        self.alive.update(slots)
        self.calls += [f"start {slot}" for slot in slots]

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        self.calls += [f"{'kill' if kill else 'stop'} {slot}" for slot in slots]
        self.ended += [Ended(slot, 143) for slot in slots]

    def observe(self) -> Observation:
        if self.problem:
            raise ToolError(self.problem)
        while self.ended:
            end = self.ended.pop()
            self.alive.discard(end.slot)
            self._statuses[end.slot] = end
        return Observation(frozenset(self.alive))

    def exit_status(self, slot: int) -> Ended:
        return self._statuses.pop(slot)

    def close(self) -> None:
        self.calls.append("close")


def lasting() -> Actors:
    """Returns a backend whose actors outlive the launcher, two of them at work."""
    actors = Actors()
    actors.outlives = True
    actors.alive = {1, 2}
    return actors


def launch(
    script: Callable[[], None],
    address: Address,
    backend: Backend,
    slots: int = 4,
    prestart: int = 0,
    wait: float = 0.0,
    actors: str = "lab",
) -> int:
    """Runs a launcher in this thread, with `script` in another; returns its exit code."""
    where, places = LearnerEndpoint(address), [Place(backend, slots, actors=actors)]
    return beside(script, lambda: shell.run(where, places, name="lab", prestart=prestart, wait=wait))
