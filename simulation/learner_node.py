"""The learner's process on the virtual clock: like `learner.daemon`, a shell around the learner's core.

It does one thing after another. The virtual time that a call of the core takes (to read a message, or for an optimizer
step) passes before the effects of that call are carried out.
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
"""Time to write or read a checkpoint."""


class Recorder(Protocol):
    """Takes the learner's output that is not for the network."""

    def row(self, now: float, row: Mapping[str, Any]) -> None:
        """Takes a row of metrics."""

    def save(self, save: SaveCheckpoint) -> str:
        """Keeps a checkpoint; returns the reason if it could not, else an empty text."""

    def read_newest(self) -> Checkpoint | None:
        """Returns the checkpoint that a restarted learner resumes from."""

    def read_best(self) -> tuple[Checkpoint | None, str]:
        """Returns the best checkpoint, or None and the reason why it could not be read."""

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
        """Largest number of messages that have waited at once."""
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
        """End of the last time in which the process stood still."""
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
        """Reads the next message, until none is left or the time for reading is up."""
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
        """Waits for a message, or until something is due; a poll takes whole milliseconds."""
        now = self._queue.now
        self._plan(max(self.core.deadline, now + 1e-3), self._turn)
        self._waiting = True

    def _spend(self, seconds: float, call: Callable[[], list[Effect]], then: Callable[[], None]) -> None:
        """Calls the core at once; carries out its effects, and calls `then`, after the time that the call takes."""
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
        """Stops the process for a while."""
        if self._event is not None and self._event.action is not None:
            since = self._queue.now if self._waiting else self._event.time
            self.stalled_until = since + seconds
            self._plan(self.stalled_until, self._event.action)

    def kill(self) -> None:
        """Ends at once, as after SIGKILL."""
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
        """Tells the core the disk's answer, DISK_SECONDS later."""

        def told() -> None:
            if self.alive and self.finish is None:
                self._do(tell(self._queue.now))

        self._queue.after(DISK_SECONDS, told)
