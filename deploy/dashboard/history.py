"""The course of a run's figures in bounded memory: rows in order of their frames, older ones further apart."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 2**15
"""Most rows: with one a second, nine hours before any is left out."""
COLUMNS = 48
"""Most figures that have a column. Losses are named by the learner, which may name any number."""
KEPT = 4
"""When a history is full, the newest 1/KEPT of its rows is kept whole, and every second one of the other rows."""
AXES = ("seconds", "frames")
"""Figures that only grow, and that the others can be shown over."""
_FIRST_ROWS = 1024
_DIGITS = "{:.8g}"

Samples = dict[str, list[float | None]]
"""Values by figure, all lists equally long; None: not known there."""


class History:
    """Rows in order of the frames that the run had reached; a row from further back removes those beyond it.

    One thread adds, another one reads.
    """

    def __init__(self, most: int = ROWS) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._names = {name: column for column, name in enumerate(AXES)}
        self._values = np.full((COLUMNS, min(most, _FIRST_ROWS)), np.nan)
        self._rows = 0
        self.changes = 0
        """Number of changes so far."""

    def __len__(self) -> int:
        return self._rows

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the numbers of a row. One without `frames` and `seconds`, or that says nothing new, is left out."""
        frames, seconds = _number(row.get("frames")), _number(row.get("seconds"))
        if math.isnan(frames) or math.isnan(seconds):
            return
        with self._lock:
            self._add(frames, seconds, row)

    def _add(self, frames: float, seconds: float, row: Mapping[str, Any]) -> None:
        while self._rows and (frames < self._last("frames") or seconds < self._last("seconds")):
            self._rows -= 1  # the run went back to a checkpoint
        if self._rows and seconds == self._last("seconds"):
            self._rows -= 1
        if self._rows == self._values.shape[1]:
            self._make_room()
        self._values[:, self._rows] = np.nan
        for name, value in row.items():
            column = self._column(name, number := _number(value))
            if column is not None:
                self._values[column, self._rows] = number
        self._rows += 1
        self.changes += 1

    def sample(self, over: str, start: float | None, end: float | None, points: int) -> Samples:
        """The rows with `over` from `start` to `end` and one row beyond each, reduced to about `points` means.

        Means are over intervals of equal length that begin at multiples of it, so that a point stays where it is while
        the run goes on.
        """
        with self._lock:
            return self._sample(over, start, end, points)

    def _sample(self, over: str, start: float | None, end: float | None, points: int) -> Samples:
        if over not in AXES or not self._rows:
            return {}
        x = self._values[self._names[over], : self._rows]
        first = 0 if start is None else max(0, int(np.searchsorted(x, start)) - 1)
        last = self._rows if end is None else min(self._rows, int(np.searchsorted(x, end, side="right")) + 1)
        if last <= first:
            return {}
        x, values = x[first:last], self._values[: len(self._names), first:last]
        if last - first > points:
            width = 2.0 ** math.ceil(math.log2(max((x[-1] - x[0]) / points, 1e-9)))
            begins = np.flatnonzero(np.diff(np.floor(x / width), prepend=-np.inf))
            values = _means(values, begins)
        return {name: [_short(value) for value in values[column]] for name, column in self._names.items()}

    def _column(self, name: str, number: float) -> int | None:
        """The column of a figure; None: there is nothing to write, or no room for another figure."""
        if name in self._names:
            return self._names[name]
        if math.isnan(number) or len(self._names) == COLUMNS:
            return None
        return self._names.setdefault(name, len(self._names))

    def _last(self, name: str) -> float:
        return float(self._values[self._names[name], self._rows - 1])

    def _make_room(self) -> None:
        if self._rows < self._most:
            wider = np.full((COLUMNS, min(self._most, 2 * self._rows)), np.nan)
            wider[:, : self._rows] = self._values
            self._values = wider
            return
        old = self._rows - self._rows // KEPT
        kept = np.concatenate([np.arange(0, old, 2), np.arange(old, self._rows)])
        self._values[:, : len(kept)] = self._values[:, kept]
        self._rows = len(kept)


def _means(values: NDArray[np.float64], begins: NDArray[np.intp]) -> NDArray[np.float64]:
    """Means of the finite numbers in each interval, (columns, len(begins)); NaN where an interval has none."""
    known = np.isfinite(values)
    counts = np.add.reduceat(known, begins, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.where(known, values, 0.0), begins, axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _number(value: object) -> float:
    """The value as a float; NaN: it is no number, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    with suppress(OverflowError):  # a whole number beyond any float
        return float(value) if math.isfinite(value) else math.nan
    return math.nan


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(_DIGITS.format(value))
