"""The file of metrics, one JSON object a line: reads, repairs and thins it without ever holding all of its rows.

A resumed run goes back to its last checkpoint. Rows from beyond it, whose frames are played again, no longer count.
"""

import contextlib
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from common.host.atomic_file import sync_folder

KEPT = ((2 * 3600.0, 0.0), (24 * 3600.0, 10.0), (7 * 24 * 3600.0, 60.0), (30 * 24 * 3600.0, 600.0))
"""Pairs (age, apart), in seconds of training: up to this age, the rows kept are at least so far apart."""
LAST_APART = 3600.0
"""Least distance, in seconds, of older rows."""
_BLOCK = 2**16


class _Place(msgspec.Struct):
    """The part of a row that thinning needs."""

    frames: float
    seconds: float | None = None


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows that still count; none if there is no file.

    Left out are lines that are not an object with a number of `frames`, and rows from beyond a checkpoint to which the
    run went back.
    """
    for line in _standing(file):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            yield msgspec.json.decode(line)


def last_row(file: Path) -> dict[str, Any]:
    """Return the newest row, which always counts; empty if there is none. Raises OSError."""
    if not file.exists():
        return {}
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _BLOCK))
        lines = opened.read().splitlines()
    for line in reversed(lines):
        if _place(line) is not None:
            found: dict[str, Any] = msgspec.json.decode(line)
            return found
    return {}


def repair(file: Path) -> None:
    """Cut off an incomplete line that a crash left at the end; raises OSError."""
    if not file.exists():
        return
    with file.open("r+b") as opened:
        size = end = opened.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - _BLOCK)
            opened.seek(begin)
            found = opened.read(end - begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            opened.truncate(end)


def thin(file: Path) -> None:
    """Replace the file in one step by one whose rows are further apart the older they are.

    All rows that count are kept for two hours. Raises OSError, with the file as it was.
    """
    seconds = array("d", (_seconds(line) for line in _standing(file)))
    newest = max((value for value in seconds if value == value), default=0.0)
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("wb") as out:
            last = -LAST_APART
            for line, at in zip(_standing(file), seconds, strict=True):
                if at != at or not 0 <= at - last < _apart(newest - at):  # NaN: the age is not known
                    out.write(line)
                    last = at if at == at else last
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def _apart(age: float) -> float:
    return next((apart for limit, apart in KEPT if age <= limit), LAST_APART)


def _seconds(line: bytes) -> float:
    """Return the seconds of training when the row was written; NaN if it does not tell."""
    place = _place(line)
    return float("nan") if place is None or place.seconds is None else place.seconds


def _standing(file: Path) -> Iterator[bytes]:
    """Yield the lines that count, each with its line end: those after which no line has fewer frames.

    This reads the file twice, since only its end tells which rows count.
    """
    frames = array("d", (place.frames for place in map(_place, _lines(file)) if place is not None))
    least = float("inf")
    for index in range(len(frames) - 1, -1, -1):
        if frames[index] <= least:
            least = frames[index]
        else:
            frames[index] = float("nan")
    index = 0
    for line in _lines(file):
        if _place(line) is not None:
            if index < len(frames) and frames[index] == frames[index]:
                yield line if line.endswith(b"\n") else line + b"\n"
            index += 1


def _place(line: bytes) -> _Place | None:
    try:
        return msgspec.json.decode(line, type=_Place)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _lines(file: Path) -> Iterator[bytes]:
    if file.exists():
        with file.open("rb") as opened:
            yield from opened
