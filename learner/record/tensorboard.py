"""Metrics for TensorBoard, written by a thread of their own: importing tensorboardX takes up to seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Full, Queue
from typing import Any

Row = tuple[int, Mapping[str, float]]

QUEUE = 256
"""Rows that may wait; at a row a second, minutes in which the disk may stand still."""

CLOSING_SECONDS = 10.0
"""How long closing waits, twice."""

_log = logging.getLogger(__name__)


class TensorBoard:
    """An event file in a folder. Rows the disk is too slow for are dropped and counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: Queue[Row | None] = Queue(QUEUE)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="tensorboard", daemon=True)
        self._thread.start()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Hand a row over without waiting; `values` by tag, each finite."""
        try:
            self._rows.put_nowait((step, values))
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Wait until all rows are in the file, though not for ever: the disk may stand still."""
        try:
            self._rows.put(None, timeout=CLOSING_SECONDS)
            self._thread.join(CLOSING_SECONDS)
        except Full:
            self._dropped += self._rows.qsize()
        if self._dropped or self._thread.is_alive():
            _log.warning("TensorBoard's events are not complete (%d rows dropped): the disk is too slow", self._dropped)

    def _write_all(self) -> None:
        rows = iter(self._rows.get, None)
        try:
            self._write_file(rows)
        except Exception as error:
            _log.warning("nothing more is written for TensorBoard: %s", error)
            for _ in rows:
                pass

    def _write_file(self, rows: Iterator[Row]) -> None:
        from tensorboardX import SummaryWriter

        writer: Any = SummaryWriter(str(self._folder))
        try:
            for step, values in rows:
                for tag, value in values.items():
                    writer.add_scalar(tag, value, step)
        finally:
            writer.close()
