"""Writes all files of a running learner's folder, on a thread of its own: a slow disk does not delay training."""

from __future__ import annotations

import dataclasses
import logging
import math
import queue
import shutil
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from common.errors import A3cdError, UnavailableError
from common.host.atomic_file import replace_file
from common.host.load import LoadMeter
from common.rl.named_tensors import NamedTensor
from common.run.status import RunStatus, summary
from learner.effects import RateCheckpoint, SaveCheckpoint
from learner.host_look import HostLook
from learner.record import curve
from learner.record.checkpoint import CheckpointWriter
from learner.record.metrics import MetricsWriter, Value

if TYPE_CHECKING:
    from torch import Tensor  # the import takes seconds, so the daemon defers it until it has its ports and folder

    from common.run.folder import Checkpoint as CheckpointContent
    from common.run.folder import RunFolder
    from common.settings.sections import Checkpoint

T = TypeVar("T")
_log = logging.getLogger(__name__)

WAITING_JOBS = 4000
"""Rows of metrics are left out while this many jobs wait: by then the disk has not responded for an hour."""
BEAT_SECONDS = 1.0
LOOK_SECONDS = 2.0
"""Seconds between two looks at the free space of the disk and at the load of this host."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """The outcome of saving a checkpoint."""

    version: int
    error: str
    """Why it could not be written; empty: it is on the disk."""
    path: str = ""
    """The checkpoint's folder, if it is on the disk."""


@dataclasses.dataclass(frozen=True)
class BestRead:
    """The best checkpoint, as `RunWriter.read_best` requested it."""

    checkpoint: CheckpointContent | None
    error: str
    """Why it could not be read, in which case `checkpoint` is None."""


class RunWriter:
    """Accepts at once what is to be written, and writes it in that order. `saved` and `troubles` tell how it went.

    A checkpoint holds the state at the moment of `save`, which copies its tensors. No call waits for the disk except
    `wait` and `close`, and these only as long as they are told to.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoint: Checkpoint,
        damaged: Collection[str] = (),
        hyperparameters: Mapping[str, bool | float | str] | None = None,
        layout: Sequence[NamedTensor] = (),
    ) -> None:
        """`damaged`: names of checkpoints that are to be left alone; `hyperparameters`: as for `MetricsWriter`.
        `layout`: as for `CheckpointWriter`.

        Raises UnavailableError if the folder cannot be read or written.
        """
        self._folder = folder
        self._jobs: queue.Queue[Callable[[], object] | None] = queue.Queue()
        self._saved: deque[Saved] = deque()
        self._best_read: deque[BestRead] = deque()
        self._troubles: deque[str] = deque(maxlen=10)
        try:
            keep, best = checkpoint.keep, checkpoint.best
            self._checkpoints = CheckpointWriter(folder, keep=keep, best=best, damaged=damaged, layout=layout)
            self._metrics = MetricsWriter(folder, self._troubles.append, hyperparameters)
        except OSError as error:
            raise UnavailableError(f"{error.filename or folder.path}: {error.strerror}") from error
        self.host = HostLook()
        """The newest look at the disk and at this host."""
        self._load = LoadMeter()
        self._looked = -math.inf
        self._full = False
        """Whether the last row was left out."""
        self._thread = threading.Thread(target=self._work, name="run-writer", daemon=True)
        self._thread.start()

    def row(self, time: float, values: Mapping[str, Value]) -> None:
        """Write a row of metrics; `time` is in seconds since 1970."""
        full, was_full = self._jobs.qsize() >= WAITING_JOBS, self._full
        self._full = full
        if not full:
            self._jobs.put(lambda: self._row(time, values))
        elif not was_full:
            self._failed(f"{self._folder.metrics_file}: the disk does not respond; rows are left out")

    def save(self, save: SaveCheckpoint) -> None:
        """Write a checkpoint of the present values of the tensors."""
        copy = dataclasses.replace(
            save,
            weights=_copy(save.weights),
            optimizer={name: _copy(tensor) for name, tensor in save.optimizer.items()},
        )
        self._jobs.put(lambda: self._save(copy))

    def rate(self, rate: RateCheckpoint) -> None:
        """Note in a checkpoint its evaluation."""
        self._jobs.put(lambda: self._rate(rate))

    def sync(self, sync: Callable[[], None]) -> None:
        """Call `sync` before the next checkpoint is written, which relies on what `sync` brings to the disk."""
        self._jobs.put(lambda: self._sync(sync))

    def saved(self) -> list[Saved]:
        """Return the outcomes of checkpoints since the last call."""
        return _taken(self._saved)

    def troubles(self) -> list[str]:
        """Return what else could not be written since the last call, for `status`; the log has it already."""
        return _taken(self._troubles)

    def read_best(self) -> None:
        """Read the best checkpoint in turn with the other jobs, so that no checkpoint is removed meanwhile."""
        self._jobs.put(self._read_best)

    def best_read(self) -> list[BestRead]:
        """Return the results of `read_best` since the last call."""
        return _taken(self._best_read)

    def conclude(self, status: RunStatus, *, curve: bool) -> None:
        """Write the summary, and the learning curve if `curve`; all rows of metrics must have been handed over."""
        self._jobs.put(lambda: self._conclude(status, curve))

    def wait(self, seconds: float, beat: Callable[[], object] = int) -> bool:
        """Wait until everything is written, but not longer than `seconds`; return whether it is.

        `beat` is called about once a second, so that the caller can show that it is alive.
        """
        done = threading.Event()
        self._jobs.put(done.set)
        until = clock.monotonic() + seconds
        while not done.wait(max(0.0, min(BEAT_SECONDS, until - clock.monotonic()))):
            beat()
            if clock.monotonic() >= until:
                return False
        return True

    def close(self, seconds: float) -> None:
        """End the thread, and wait for it up to `seconds`; if it still waits for the disk, it ends with the process."""
        self._jobs.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # none is expected; the thread must live on for the next checkpoint
                _log.exception("something could not be written")
        self._metrics.close()

    def _row(self, time: float, values: Mapping[str, Value]) -> None:
        self._metrics.row(time, values)
        self._look()

    def _look(self) -> None:
        """Look at disk and host; on this thread, since the call blocks while a network disk is away."""
        now = clock.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        try:
            free = shutil.disk_usage(self._folder.path).free
        except OSError:
            free = None
        self.host = HostLook(free, self._load.look())

    def _sync(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError as error:
            self._failed(f"{self._folder.gradients}: is perhaps not on the disk: {error.strerror or error}")

    def _save(self, save: SaveCheckpoint) -> None:
        error, path = "it was not written", ""
        try:
            path = str(self._checkpoints.write(save).folder.absolute())
            error = ""
        except OSError as failure:
            error = f"{self._folder.checkpoints}: {failure.strerror or failure}"
        except (A3cdError, MemoryError) as failure:
            error = f"{self._folder.checkpoints}: {failure or 'out of memory'}"
        finally:
            self._saved.append(Saved(save.version, error, path))

    def _rate(self, rate: RateCheckpoint) -> None:
        try:
            self._checkpoints.rate(rate)
        except (A3cdError, OSError) as failure:
            self._failed(f"the evaluation of version {rate.version} could not be noted in its checkpoint: {failure}")

    def _failed(self, text: str) -> None:
        _log.error("%s", text)
        self._troubles.append(text)

    def _read_best(self) -> None:
        read = BestRead(None, "it was not read")
        try:
            read = BestRead(self._checkpoints.read_best(), "")
        except (A3cdError, OSError, MemoryError) as failure:
            read = BestRead(None, str(failure) or "out of memory")
        finally:
            self._best_read.append(read)

    def _conclude(self, status: RunStatus, with_curve: bool) -> None:
        folder = self._folder
        try:
            replace_file(folder.summary_file, msgspec.json.format(msgspec.json.encode(summary(status)), indent=2))
            if with_curve:
                curve.draw(folder.metrics_file, folder.curve, status.env, status.goal)
        except OSError as error:
            _log.error("the summary and the learning curve could not be written: %s", error)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _taken(some: deque[T]) -> list[T]:
    return [some.popleft() for _ in range(len(some))]
