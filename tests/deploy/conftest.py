"""A run's status to look at (each maker takes fields to change), and a learner that does no more than talk."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import msgspec
import pytest
import zmq

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.status import FleetStatus, PeerStatus, RunStatus
from common.wire import sockets
from common.wire.frames import pack, split
from common.wire.messages import AnyMessage, Halt, Hello, Inspect, Refused, Save, Scale, Status, Welcome
from tests.helpers import status as helpers
from tests.helpers.command_line import Stand


@pytest.fixture
def peer() -> Callable[..., PeerStatus]:
    return helpers.peer_status


@pytest.fixture
def fleet() -> Callable[..., FleetStatus]:
    return helpers.fleet_status


@pytest.fixture
def run_status() -> Callable[..., RunStatus]:
    return helpers.run_status


class FakeLearner:
    """Welcomes who says hello and answers who asks, on a thread of its own; `heard` is all that came in."""

    def __init__(self, report: dict[str, Any], port: int = 0) -> None:
        listener = sockets.reserve(Address("127.0.0.1", port))
        self.address = Address("127.0.0.1", listener.getsockname()[1])
        self.access = LearnerEndpoint(self.address)
        self.report = report
        self.refusal: Refused | None = None
        self.answers = True
        self.outcome: AnyMessage | None = None
        """That an operator is told."""
        self.heard: list[AnyMessage] = []
        self._to_say: SimpleQueue[AnyMessage] = SimpleQueue()
        self._stopping = Event()
        self._thread = Thread(target=self._serve, args=(listener,))
        self._thread.start()

    def say(self, message: AnyMessage) -> None:
        """To all who are in."""
        self._to_say.put(message)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _serve(self, listener: Any) -> None:
        context = zmq.Context()
        router = sockets.router(context, 2**20)
        sockets.bind(router, listener)
        members: set[bytes] = set()
        while not self._stopping.is_set():
            while not self._to_say.empty():
                header = pack(self._to_say.get())
                for member in members:
                    self._send(router, [member, header])
            if router.poll(10):
                routing_id, *frames = router.recv_multipart()
                message, _ = split(frames)
                self.heard.append(message)
                if isinstance(message, Hello) and self.refusal is None:
                    members.add(routing_id)
                answer = self._answer(message, routing_id in members)
                if answer is not None:
                    self._send(router, [routing_id, pack(answer)])
        router.close()
        context.term()

    def _send(self, router: Any, frames: list[bytes]) -> None:
        with suppress(zmq.ZMQError):  # who said goodbye has gone
            router.send_multipart(frames)

    def _answer(self, message: AnyMessage, member: bool) -> AnyMessage | None:
        if self.refusal is not None:
            return self.refusal
        if isinstance(message, Hello):
            return Welcome(run="a-run", epoch=1, heartbeat_seconds=2.0, expiry_seconds=30.0)
        if not member:
            return Refused(code="unknown", reason="say hello first")
        if isinstance(message, Halt | Save | Scale):
            return self.outcome
        return Status(report=self.report) if isinstance(message, Inspect) and self.answers else None


@pytest.fixture
def start_learner(run_status: Callable[..., RunStatus]) -> Iterator[Callable[..., FakeLearner]]:
    """Starts a learner with a report of a run, its fields changed as given; all are stopped in the end."""
    started: list[FakeLearner] = []

    def start(port: int = 0, **changed: Any) -> FakeLearner:
        started.append(FakeLearner(msgspec.to_builtins(run_status(**changed)), port))
        return started[-1]

    yield start
    for learner in started:
        learner.stop()


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a stand-in in the place of what `name` says."""

    def put(name: str, answer: Any = 0) -> Stand:
        one = Stand(answer)
        monkeypatch.setattr(name, one)
        return one

    return put


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
