"""Writes the run's metrics: a file with one JSON object a line, and TensorBoard's events. Neither grows without end."""

import contextlib
import logging
import math
import os
import time as clock
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from common.run.folder import RunFolder
from learner.record.hyperparameters import RESULTS
from learner.record.metrics_file import repair, thin

Value = float | int | str | None | Mapping[str, float]
_log = logging.getLogger(__name__)

GROWTH_BYTES = 2**21
"""The file is thinned when it has grown by this, which takes about half an hour at a row a second."""
EVENTS_AGE = 5000.0
"""TensorBoard gets a row when the run's age has grown by one part in this: all of them at first, one every two minutes
after a week."""


class MetricsWriter:
    """Appends rows to the file and to TensorBoard's events: about a kilobyte a second.

    If the disk takes no more, this is reported when it begins and when it is over; it does not end the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        report: Callable[[str], object],
        hyperparameters: Mapping[str, bool | float | str] | None = None,
    ) -> None:
        """`report`: called with each warning that is logged; `hyperparameters`: for TensorBoard, by name.

        Raises OSError if the file cannot be opened.
        """
        # Not imported at the top, since the daemon imports this file before it takes its ports.
        from tensorboardX.event_file_writer import EventsWriter

        self._report = report
        self._file = _LineFile(folder.metrics_file)
        self._file.open()
        self._thinned_bytes = 0
        self._failing = False
        self._events: Any = None
        self._events_at = -math.inf
        try:
            folder.events.mkdir(exist_ok=True)
            self._events = EventsWriter(str(folder.events / "events"))
            if hyperparameters is not None:
                self._describe(hyperparameters)
        except OSError as error:
            self._end_events(error)

    def _describe(self, hyperparameters: Mapping[str, bool | float | str]) -> None:
        """Write the hyperparameters, at the beginning so that a killed run has them too; the rows have its results."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import hparams

        experiment, begins, _ = hparams(dict(hyperparameters), dict.fromkeys(RESULTS, 0.0))
        for summary in (experiment, begins):
            self._events.write_event(Event(wall_time=clock.time(), summary=summary))

    def row(self, time: float, values: Mapping[str, Value]) -> None:
        """Add a row. `time` is in seconds since 1970; `values` should have `frames`, TensorBoard's step, and `seconds`.

        Numbers that are not finite are written as null, and left out for TensorBoard. There a number of a table is
        called TABLE/NAME.
        """
        try:
            self._file.append(msgspec.json.encode({"time": time, **values}) + b"\n")
        except OSError as error:
            if not self._failing:
                self._warn("metrics: rows are not written", error)
            self._failing = True
        else:
            if self._failing:
                _log.info("metrics: rows are written again")
            self._failing = False
            if self._file.size > self._thinned_bytes + GROWTH_BYTES:
                self._thin()
        self._event(time, dict(numbers(values)))

    def close(self) -> None:
        if self._events is not None:
            try:
                self._events.close()
            except OSError as error:
                self._end_events(error)
        self._file.close()

    def _thin(self) -> None:
        try:
            self._file.thin()
        except OSError as error:
            self._warn("metrics: the file could not be thinned", error)
        self._thinned_bytes = self._file.size  # also after a failure: one attempt for each growth

    def _event(self, time: float, numbers: Mapping[str, float]) -> None:
        age = numbers.get("seconds", math.inf)
        if self._events is None or age < self._events_at + self._events_at / EVENTS_AGE:
            return
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        self._events_at = age if age < math.inf else self._events_at
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items() if math.isfinite(value)]
        event = Event(wall_time=time, step=int(numbers.get("frames", 0)), summary=Summary(value=scalars))
        try:
            self._events.write_event(event)
        except OSError as error:
            self._end_events(error)

    def _end_events(self, error: OSError) -> None:
        """Write no more events until the learner starts again: TensorBoard reads nothing after an incomplete record."""
        if self._events is not None:
            with contextlib.suppress(OSError):
                self._events._py_recordio_writer.close()  # the writer's own close would fail before it closes this
        self._events = None
        self._warn("TensorBoard: no more rows are written", error)

    def _warn(self, text: str, error: OSError) -> None:
        text = f"{text}: {error.strerror or error}"
        _log.warning("%s", text)
        self._report(text)


def numbers(values: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a row with their names; a number of a table is called TABLE/NAME."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}/{key}", float(number)) for key, number in value.items())
        elif isinstance(value, int | float):
            yield name, float(value)


class _LineFile:
    """A file with complete lines only, however much the disk takes and whenever the process is killed.

    After an error, the next line opens the file anew, since a stale handle stays stale.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.size = 0

    def open(self) -> IO[bytes]:
        """Open the file, after a repair, if it is not open. Raises OSError."""
        if self._file is None:
            repair(self._path)
            self._file = self._path.open("ab", buffering=0)
            self.size = self._file.tell()
        return self._file

    def append(self, line: bytes) -> None:
        """Append a line. Raises OSError, with the file as it was. A crash leaves at most the last line incomplete."""
        file = self.open()
        try:
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fileno(), self.size)
            self.close()
            raise
        self.size += len(line)

    def thin(self) -> None:
        """Thin the file. Raises OSError, with the file as it was."""
        self.close()
        thin(self._path)
        self.open()

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None
