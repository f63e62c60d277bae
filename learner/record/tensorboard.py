"""Metrics as TensorBoard's events. Written by the learner's own thread, as its metrics file is: a kilobyte a second."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)


class TensorBoard:
    """An event file in a folder. A disk that does not take it is reported once and does not end the run."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        self._failed = False
        with self._reported():
            # Not at the top: the daemon imports this file before it takes its ports.
            from tensorboardX.event_file_writer import EventsWriter

            folder.mkdir(exist_ok=True)
            self._writer = EventsWriter(str(folder / "events"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row; `values` by tag, each finite."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        if not self._failed:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
            with self._reported():
                self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        if self._writer is not None:
            with self._reported():
                self._writer.close()

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._failed:
                _log.warning("nothing more is written for TensorBoard: %s", error)
            self._failed = True
