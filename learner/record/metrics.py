"""The run's metrics as a file of one JSON object a line, handed on to TensorBoard."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from common.run.folder import RunFolder
from learner.record.tensorboard import TensorBoard

Value = float | int | str | None
_log = logging.getLogger(__name__)


class MetricsWriter:
    """Appends rows. A disk that does not take them is reported once and does not end the run."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises OSError if the file cannot be opened."""
        repair(folder.metrics_file)
        self._file = folder.metrics_file.open("ab", buffering=0)
        self._tensorboard = TensorBoard(folder.events)
        self._failed = False

    def row(self, time: float, values: Mapping[str, Value]) -> None:
        """Add a row. `time` is in seconds since 1970; `values` should have `frames`, TensorBoard's step.

        Numbers that are not finite are written as null, and left out for TensorBoard.
        """
        try:
            # One write a line: what a crash leaves is whole lines and at most one half line, at the end.
            self._file.write(msgspec.json.encode({"time": time, **values}) + b"\n")
        except OSError as error:
            if not self._failed:
                _log.warning("metrics are no longer written: %s", error)
            self._failed = True
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        frames = int(numbers.get("frames", 0))
        self._tensorboard.add(frames, {name: value for name, value in numbers.items() if math.isfinite(value)})

    def close(self) -> None:
        """Write what is still to be written for TensorBoard, and close both."""
        self._tensorboard.close()
        self._file.close()


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
