"""A run's status to look at (each maker takes fields to change), and a learner that does no more than talk."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import msgspec
import pytest
import zmq

from common import sockets
from common.addresses import Address
from common.messages import AnyMessage, Hello, Inspect, Refused, Status, Welcome
from common.status import FleetStatus, PeerStatus, RunStatus
from common.wire import pack, split

PEER: dict[str, Any] = {
    "name": "lab-01",
    "host": "lab",
    "pid": 4100,
    "launcher": "gpu-box",
    "state": "working",
    "trouble": "",
    "frames": 30_100,
    "frames_per_second": 1071.3,
    "gradients": 900,
    "stale": 2,
    "refused": 0,
    "lag": 1.1,
    "seen": 0.2,
}
FLEET: dict[str, Any] = {
    "name": "gpu-box",
    "host": "gpu-box",
    "slots": 8,
    "ordered": 7,
    "running": 6,
    "starting": 1,
    "failed": 2,
    "gave_up": False,
    "exit_code": 0,
    "why": "",
}
RUN: dict[str, Any] = {
    "run": "9649236e67ffe1b7",
    "epoch": 1,
    "state": "running",
    "env": "FlappyBird-v0",
    "algorithm": "a3c",
    "network": "dense",
    "parameters": 17_538,
    "seed": 3,
    "codec": "int8+lz4",
    "device": "cpu",
    "run_dir": "runs/x",
    "seconds": 724.0,
    "frames": 1_204_320,
    "emulator_frames": 1_204_320,
    "episodes": 12_345,
    "version": 21_000,
    "gradients": 60_216,
    "stale": 12,
    "refused": 0,
    "duplicates": 0,
    "gradient_bytes": 1_100_000_000,
    "weight_bytes": 4_230_000_000,
    "mean_return": 87.3,
    "best_return": 92.14,
    "episode_length": 86.4,
    "episode_seconds": 23.1,
    "frames_per_second": 4312.0,
    "gradients_per_second": 215.3,
    "bytes_per_second": 5e6,
    "lag_mean": 1.23,
    "lag_p95": 4.0,
    "learner_busy": 0.34,
    "goal": 100.0,
    "seconds_left": None,
    "frames_left": 795_680,
    "episodes_left": None,
    "reached": False,
    "actors": 12,
    "actors_wanted": 13,
    "actors_peak": 12,
    "why": "mean episode 23.1 s > 20 s: 12 -> 13 actors",
    "losses": {"policy_loss": -0.0123, "value_loss": 0.231, "entropy": 0.612, "gradient_norm": 1.73},
}


@pytest.fixture
def peer() -> Callable[..., PeerStatus]:
    return lambda **changed: PeerStatus(**(PEER | changed))


@pytest.fixture
def fleet() -> Callable[..., FleetStatus]:
    return lambda **changed: FleetStatus(**(FLEET | changed))


@pytest.fixture
def run_status() -> Callable[..., RunStatus]:
    return lambda **changed: RunStatus(**(RUN | changed))


class FakeLearner:
    """Welcomes who says hello and answers who asks, on a thread of its own; `heard` is all that came in."""

    def __init__(self, report: dict[str, Any], port: int = 0) -> None:
        listener = sockets.reserve(Address("127.0.0.1", port))
        self.address = Address("127.0.0.1", listener.getsockname()[1])
        self.report = report
        self.refusal: Refused | None = None
        self.answers = True
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
                    router.send_multipart([member, header])
            if router.poll(10):
                routing_id, *frames = router.recv_multipart()
                message, _ = split(frames)
                self.heard.append(message)
                if isinstance(message, Hello) and self.refusal is None:
                    members.add(routing_id)
                answer = self._answer(message, routing_id in members)
                if answer is not None:
                    router.send_multipart([routing_id, pack(answer)])
        router.close()
        context.term()

    def _answer(self, message: AnyMessage, member: bool) -> AnyMessage | None:
        if self.refusal is not None:
            return self.refusal
        if isinstance(message, Hello):
            return Welcome(run="a-run", epoch=1, heartbeat_seconds=2.0, expiry_seconds=30.0)
        if not member:
            return Refused(code="unknown", reason="say hello first")
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
