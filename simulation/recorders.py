"""Recorders for the output of a simulated run: into memory, or into a run folder like any other run's."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.errors import UnavailableError
from common.run.folder import Checkpoint
from common.run.status import RunStatus
from common.settings.sections import Settings
from learner.effects import Log, Record, SaveCheckpoint
from learner.record import run_lock
from learner.record.gradient_log import GradientLog
from learner.record.run_writer import RunWriter

DISK_SECONDS = 60.0
"""Longest wait for the disk, in real seconds."""
_log = logging.getLogger("learner")


class MemoryRecorder:
    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        """Rows of metrics."""
        self.lines: list[tuple[float, str]] = []
        """Log lines for the operator, with their times."""
        self.records: list[Record] = []
        self.newest: Checkpoint | None = None
        self.best: Checkpoint | None = None

    def row(self, now: float, row: Mapping[str, Any]) -> None:  # noqa: ARG002  the row holds its own time
        self.rows.append(row)

    def save(self, save: SaveCheckpoint) -> str:
        optimizer = {name: tensor.detach().cpu().numpy().copy() for name, tensor in save.optimizer.items()}
        weights = save.weights.detach().cpu().numpy().copy()
        self.newest = Checkpoint(save.version, save.score, weights, optimizer, save.state)
        if save.score is not None and (self.best is None or self.best.score is None or save.score > self.best.score):
            self.best = self.newest
        return ""

    def read_newest(self) -> Checkpoint | None:
        return self.newest

    def read_best(self) -> tuple[Checkpoint | None, str]:
        return self.best, "" if self.best is not None else "there is none"

    def record(self, record: Record) -> None:
        self.records.append(record)

    def log(self, now: float, line: Log) -> None:
        self.lines.append((now, line.text))


class FolderRecorder:
    """Writes the metrics, checkpoints, summary and curve of a new run."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Raises the errors of `run_lock.create`."""
        self.run = run_lock.create(path, settings)
        self._writer = RunWriter(self.run.folder, settings.checkpoint)
        self._gradient_log = GradientLog(self.run.folder.gradients, keep_mib=settings.record.keep_mib)

    def row(self, now: float, row: Mapping[str, Any]) -> None:
        self._writer.row(now, row)

    def save(self, save: SaveCheckpoint) -> str:
        with _told():
            if (sync := self._gradient_log.saved(save.version)) is not None:
                self._writer.sync(sync)
        self._writer.save(save)
        self._wait()
        return next((saved.error for saved in self._writer.saved()), "")

    def read_newest(self) -> Checkpoint | None:
        return self.run.folder.newest_read({})

    def read_best(self) -> tuple[Checkpoint | None, str]:
        self._writer.read_best()
        self._wait()
        return next(((read.checkpoint, read.error) for read in self._writer.best_read()), (None, "it was not read"))

    def record(self, record: Record) -> None:
        with _told():
            self._gradient_log.append(record.entry, record.body or b"")

    def log(self, now: float, line: Log) -> None:
        getattr(_log, line.level)("%10.2f s  %s", now, line.text)

    def close(self, status: RunStatus | None, *, curve: bool = True) -> None:
        """Closes the folder; with the run's final `status`, its summary and curve are written first."""
        if status is not None:
            self._writer.conclude(status, curve=curve)
        self._writer.close(DISK_SECONDS)
        self._gradient_log.close()
        self.run.close()

    def _wait(self) -> None:
        """Waits for the disk, so that its speed does not change what the core is told, or when."""
        if not self._writer.wait(DISK_SECONDS):
            raise UnavailableError(f"{self.run.folder.path}: the disk has not taken a checkpoint in {DISK_SECONDS:g} s")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Return a context in which a disk that takes no more ends the record, and not the run."""
    try:
        yield
    except OSError as error:
        _log.error("nothing more is recorded (record.gradients): %s", error)
