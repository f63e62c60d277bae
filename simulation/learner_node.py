"""The learner's process: the shell of the learner's core, as `learner.daemon` is, on the virtual clock.

It does one thing after the other. The time that a call of the core would take (to read a message, an optimizer step)
passes before that is done which the core wants.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from common.errors import WireError
from common.run.folder import Checkpoint
from common.wire.frames import split
from learner.core import LearnerCore
from learner.effects import (
    Disconnect,
    Effect,
    Finish,
    Log,
    Publish,
    ReadBest,
    Record,
    SaveCheckpoint,
    Send,
    WriteMetrics,
)
from simulation.event_queue import Event, EventQueue
from simulation.network import Frames, Network, frames_of
from simulation.settings import Costs

DISK_SECONDS = 0.05
"""For a checkpoint to be written or read."""


class Recorder(Protocol):
    """Takes what is not for the network."""

    def row(self, now: float, row: Mapping[str, Any]) -> None:
        """Of metrics."""

    def save(self, save: SaveCheckpoint) -> str:
        """Keeps a checkpoint; returns why it could not, if so."""

    def read_newest(self) -> Checkpoint | None:
        """The checkpoint that a new learner goes on from."""

    def read_best(self) -> tuple[Checkpoint | None, str]:
        """The best checkpoint, or why it could not be read."""

    def record(self, record: Record) -> None: ...

    def log(self, now: float, line: Log) -> None: ...


@dataclass(frozen=True)
class _Received:
    routing_id: bytes
    address: str
    frames: Frames


class LearnerNode:
    def __init__(
        self, queue: EventQueue, network: Network, core: LearnerCore, costs: Costs, recorder: Recorder
    ) -> None:
        self.core = core
        self.finish: Finish | None = None
        self.steps = 0
        """Optimizer steps in this epoch."""
        self.most_waiting = 0
        """Messages, at the worst time."""
        self._queue = queue
        self._network = network
        self._costs = costs
        self._recorder = recorder
        settings = core.run.spec.settings
        self._drain_seconds = settings.exchange.drain_ms / 1e3
        self._computes = settings.exchange.kind != "gradients"
        self._header_bytes = core.run.spec.header_bytes
        self._inbox: deque[_Received] = deque()
        self._event: Event | None = None
        self._waiting = False
        self._begun = queue.now
        self._heard_all = True
        self.alive = True
        self.stalled_until = 0.0
        """The end of the last time in which the process stood still."""
        network.learner_back(self)
        self._do(core.begin())
        self._wait()

    def receive(self, routing_id: bytes, address: str, frames: Frames) -> None:
        if not self.alive:
            return
        self._inbox.append(_Received(routing_id, address, frames))
        self.most_waiting = max(self.most_waiting, len(self._inbox))
        if self._waiting:
            self._plan(max(self._queue.now, self._begun + self.core.gather_seconds), self._turn)

    # -- one turn: drain, answer, flush, tick, as the daemon's loop ----------------------------------------------------

    def _turn(self) -> None:
        self._begun = self._queue.now
        self._read()

    def _read(self) -> None:
        """The next message, until none is left or the time is up."""
        now = self._queue.now
        self._heard_all = not self._inbox
        if self._heard_all or now >= self._begun + self._drain_seconds:
            self._after_reading()
            return
        received = self._inbox.popleft()

        def handle() -> list[Effect]:
            try:
                message, body = split(received.frames, self._header_bytes, by_learner=True)
            except WireError as error:
                return self.core.malformed(received.routing_id, error)
            return self.core.handle(now, received.routing_id, message, body, address=received.address)

        self._spend(self._costs.reading(received.frames), handle, self._read)

    def _after_reading(self) -> None:
        now = self._queue.now
        self._do(self.core.answer(now))
        self._spend(0.0, lambda: self.core.flush(now, heard_all=self._heard_all), self._look)

    def _look(self) -> None:
        now = self._queue.now
        self._do(self.core.tick(now, heard_all=self._heard_all))
        self.core.run.stats.busy.working(now, now - self._begun)
        if self.finish is not None or not self.alive:
            return
        if self._inbox or not self._heard_all:
            self._plan(now, self._turn)
        else:
            self._wait()

    def _wait(self) -> None:
        """For a message, or for what is due; a poll takes whole milliseconds."""
        now = self._queue.now
        self._plan(max(self.core.deadline, now + 1e-3), self._turn)
        self._waiting = True

    def _spend(self, seconds: float, call: Callable[[], list[Effect]], then: Callable[[], None]) -> None:
        """Calls the core, and does what it says, and `then`, when the time that this takes has passed."""
        counters = self.core.run.stats.counters
        version, frames = counters.version, counters.frames
        effects = call()
        stepped = counters.version - version
        self.steps += stepped
        seconds += stepped * self._costs.optimizer_step
        if self._computes:
            seconds += (counters.frames - frames) * self._costs.learner_frame

        def done() -> None:
            self._do(effects)
            if self.finish is None:
                then()

        if seconds:
            self._plan(self._queue.now + seconds, done)
        else:
            done()

    def _plan(self, time: float, action: Callable[[], object]) -> None:
        if self._event is not None:
            self._event.cancel()
        self._waiting = False
        self._event = self._queue.at(time, action)

    def stall(self, seconds: float) -> None:
        """The process is stopped for a while."""
        if self._event is not None and self._event.action is not None:
            since = self._queue.now if self._waiting else self._event.time
            self.stalled_until = since + seconds
            self._plan(self.stalled_until, self._event.action)

    def kill(self) -> None:
        """As after SIGKILL."""
        self.alive = False
        if self._event is not None:
            self._event.cancel()
        self._network.learner_gone()

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer=peer, message=message, body=body):
                    self._network.send_down(peer, frames_of(message, body))
                case Publish(frame=frame):
                    self._network.publish(frame)
                case Disconnect(peer=peer, ban_seconds=seconds):
                    self._network.disconnect(peer, seconds)
                case WriteMetrics(row=row):
                    self._recorder.row(self._queue.now, row)
                case SaveCheckpoint():
                    self._save(effect)
                case ReadBest():
                    self._read_best()
                case Record():
                    self._recorder.record(effect)
                case Log():
                    self._recorder.log(self._queue.now, effect)
                case Finish():
                    self.finish = effect

    def _save(self, effect: SaveCheckpoint) -> None:
        error = self._recorder.save(effect)
        self._disk(lambda now: self.core.saved(now, effect.version, error))

    def _read_best(self) -> None:
        checkpoint, error = self._recorder.read_best()
        self._disk(lambda now: self.core.best_read(now, checkpoint, error))

    def _disk(self, tell: Callable[[float], list[Effect]]) -> None:
        """Tells the core what the disk says, which takes a while."""

        def told() -> None:
            if self.alive and self.finish is None:
                self._do(tell(self._queue.now))

        self._queue.after(DISK_SECONDS, told)
