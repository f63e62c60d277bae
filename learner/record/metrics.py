"""The run's metrics: a file of one JSON object a line, and TensorBoard's events."""

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from common.run.folder import RunFolder

Value = float | int | str | None
_log = logging.getLogger(__name__)


class MetricsWriter:
    """Appends rows, to the file and to TensorBoard's events, on the learner's own thread: a kilobyte a second.

    A disk that does not take them is reported once each and does not end the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Raises OSError if the file cannot be opened."""
        # Not at the top: the daemon imports this file before it takes its ports.
        from tensorboardX.event_file_writer import EventsWriter

        repair(folder.metrics_file)
        self._file = folder.metrics_file.open("ab", buffering=0)
        self._events: Any = None
        self._failed: set[str] = set()
        with self._reported("TensorBoard"):
            folder.events.mkdir(exist_ok=True)
            self._events = EventsWriter(str(folder.events / "events"))

    def row(self, time: float, values: Mapping[str, Value]) -> None:
        """Add a row. `time` is in seconds since 1970; `values` should have `frames`, TensorBoard's step.

        Numbers that are not finite are written as null, and left out for TensorBoard.
        """
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        with self._reported("metrics"):
            # One write a line: what a crash leaves is whole lines and at most one half line, at the end.
            self._file.write(msgspec.json.encode({"time": time, **values}) + b"\n")
        if "TensorBoard" in self._failed:
            return
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items() if math.isfinite(value)]
        with self._reported("TensorBoard"):
            event = Event(wall_time=time, step=int(numbers.get("frames", 0)), summary=Summary(value=scalars))
            self._events.write_event(event)

    def close(self) -> None:
        if self._events is not None:
            with self._reported("TensorBoard"):
                self._events.close()
        self._file.close()

    @contextlib.contextmanager
    def _reported(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if kind not in self._failed:
                _log.warning("%s: no more rows are written: %s", kind, error)
            self._failed.add(kind)


def repair(file: Path) -> None:
    """Cut off a half line that a crash left at the end; raises OSError."""
    if not file.exists():
        return
    data = file.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with file.open("r+b") as opened:
            opened.truncate(whole)


def rows(file: Path) -> list[dict[str, Any]]:
    """Read the rows of a metrics file that the run still stands on; none if there is no file.

    A resumed run goes back to its last checkpoint: rows from beyond it, whose frames come again, are left out. So are
    lines that are no object with a number of `frames`.
    """
    kept: list[dict[str, Any]] = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            row = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if not isinstance(row, dict) or not isinstance(row.get("frames"), int | float):
            continue
        while kept and kept[-1]["frames"] > row["frames"]:
            kept.pop()
        kept.append(row)
    return kept
