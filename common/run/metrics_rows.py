"""Reads the rows of a run's metrics, each once, while its learner adds them.

The learner now and then replaces the file by one with fewer old rows, and after a resume some past rows are left out.
The place is then found again by the last row that was read or, if that is gone, by its time.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO, Any

import msgspec

from common.errors import ConfigurationError
from common.host import plain_file

ROW_BYTES = 2**22
"""Most bytes of a row. One with the frames per second of ten thousand actors has a tenth of this."""


class Place(msgspec.Struct, frozen=True):
    """A place behind a row of the metrics; all rows before it have been read."""

    rows: int = 0
    """Number of rows that have been read."""
    crc: int = 0
    """CRC-32 of the bytes of the last of them."""
    time: float = 0.0
    """Time of the last of them, in seconds since 1970."""


START = Place()


class MetricsRows:
    """The rows behind a place in metrics.jsonl."""

    def __init__(self, file: Path, place: Place = START) -> None:
        self._file = file
        self._offset: int | None = None
        """Offset of the next row in the file; None: it must be searched."""
        self._inode = 0
        self.place = place
        """The place behind the last row that `next` has returned."""

    def next(self, most: int) -> list[dict[str, Any]]:
        """Return the next rows, at most `most`; none if there are none yet, or no file.

        Raises as `plain_file.open_to_read`; ConfigurationError, too, for a row that is too long for one.
        """
        try:
            with plain_file.open_to_read(self._file) as opened:
                return self._read(opened, most)
        except FileNotFoundError:
            return []

    def _read(self, opened: IO[bytes], most: int) -> list[dict[str, Any]]:
        inode, end = os.fstat(opened.fileno()).st_ino, opened.seek(0, os.SEEK_END)
        if self._offset is None or inode != self._inode or end < self._offset:
            self._inode, self._offset = inode, self._find(opened)
        opened.seek(self._offset)
        found: list[dict[str, Any]] = []
        while len(found) < most and (line := self._line(opened)).endswith(b"\n"):
            self._offset += len(line)
            if (row := _row(line)) is not None:
                self.place = Place(self.place.rows + 1, zlib.crc32(line), row_time(row))
                found.append(row)
        return found

    def _line(self, opened: IO[bytes]) -> bytes:
        line = opened.readline(ROW_BYTES + 1)
        if len(line) > ROW_BYTES:
            raise ConfigurationError(f"{self._file}: cannot be read: a row has more than {ROW_BYTES} bytes")
        return line

    def _find(self, opened: IO[bytes]) -> int:
        """Return the offset of the first row that has not been read."""
        opened.seek(0)
        if not self.place.rows:
            return 0
        later: int | None = None
        offset = 0
        while line := self._line(opened):
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
    """Return the time of a row, in seconds since 1970; 0 if it has none."""
    time = row.get("time")
    return float(time) if isinstance(time, int | float) else 0.0
