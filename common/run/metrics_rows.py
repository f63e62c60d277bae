"""The rows of a run's metrics, each once, as its learner adds them.

The learner replaces the file now and then by one in which old rows are fewer, and after a resume rows of the past are
left out: the place is then found again by the row itself, or where that is gone, by its time.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO, Any

import msgspec


class Place(msgspec.Struct, frozen=True):
    """Behind which row: all before it are told."""

    rows: int = 0
    """How many that were."""
    crc: int = 0
    """Of the last one's bytes."""
    time: float = 0.0
    """Of the last one: seconds since 1970."""


START = Place()


class MetricsRows:
    """Behind a place in metrics.jsonl."""

    def __init__(self, file: Path, place: Place = START) -> None:
        self._file = file
        self._offset: int | None = None
        """None: the place is to be looked for."""
        self._inode = 0
        self.place = place
        """Behind the last row that was given."""

    def next(self, most: int) -> list[dict[str, Any]]:
        """The next rows, at most so many; none if there are none yet. Raises OSError but where there is no file."""
        try:
            with self._file.open("rb") as opened:
                return self._read(opened, most)
        except FileNotFoundError:
            return []

    def _read(self, opened: IO[bytes], most: int) -> list[dict[str, Any]]:
        inode, end = os.fstat(opened.fileno()).st_ino, opened.seek(0, os.SEEK_END)
        if self._offset is None or inode != self._inode or end < self._offset:
            self._inode, self._offset = inode, self._find(opened)
        opened.seek(self._offset)
        found: list[dict[str, Any]] = []
        while len(found) < most and (line := opened.readline()).endswith(b"\n"):
            self._offset += len(line)
            if (row := _row(line)) is not None:
                self.place = Place(self.place.rows + 1, zlib.crc32(line), row_time(row))
                found.append(row)
        return found

    def _find(self, opened: IO[bytes]) -> int:
        """Where the first row stands that is not told yet."""
        opened.seek(0)
        if not self.place.rows:
            return 0
        later: int | None = None
        offset = 0
        for line in opened:
            if zlib.crc32(line) == self.place.crc:
                return offset + len(line)
            row = _row(line)
            if later is None and row is not None and row_time(row) > self.place.time:
                later = offset
            offset += len(line) if line.endswith(b"\n") else 0
        return offset if later is None else later


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def row_time(row: dict[str, Any]) -> float:
    """Seconds since 1970; 0: it does not say."""
    time = row.get("time")
    return float(time) if isinstance(time, int | float) else 0.0
