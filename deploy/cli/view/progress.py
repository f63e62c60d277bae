"""Progress on stderr: the live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from common.host.service.logs import printable
from common.run.status import RunStatus
from deploy.cli.view.panel import line, render

FIRST_SECONDS = 1.0
"""From the start to the first plain line; the time between two lines doubles from there."""
LINE_SECONDS = 5.0
"""Longest time between two plain lines."""
MIN_WIDTH, MIN_HEIGHT = 60, 16
"""A smaller terminal gets plain lines."""
MAX_POINTS = 256
"""When a history has so many, every second one is dropped, and from then on points are taken half as often."""


@contextmanager
def open_view(stream: TextIO | None = None, *, warnings: bool = True) -> Iterator[Panel | Lines]:
    """A panel where `stream` (default: stderr) is a terminal large enough for it, else plain lines.

    `warnings`: as for `Lines`.
    """
    console = Console(file=stream) if stream is not None else Console(stderr=True)
    small = console.width < MIN_WIDTH or console.height < MIN_HEIGHT
    if not console.is_terminal or console.is_dumb_terminal or small:
        yield Lines(stream or sys.stderr, time.monotonic(), warnings=warnings)
        return
    with Live(console=console, auto_refresh=False, redirect_stdout=False, vertical_overflow="crop") as live:
        yield Panel(live)


class History:
    """The course of the mean return over a whole run, in bounded memory."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, status: RunStatus) -> None:
        if status.mean_return is None:
            return
        if self._seen % self._every == 0:
            self.returns.append(status.mean_return)
        self._seen += 1
        if len(self.returns) == MAX_POINTS:
            self.returns = self.returns[::2]
            self._every *= 2


class Panel:
    """The live panel, drawn again in one write for each status; lines scroll by above it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._history = History()

    def show(self, status: RunStatus) -> None:
        self._history.add(status)
        height = self._live.console.height - 1  # the cursor stands below; a full screen would scroll
        self._live.update(render(status, self._history.returns, height), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(Text(printable(text)))


class Lines:
    """Plain lines: 1, 2, 4 and 8 s after `now`, then every 5 s; new warnings at once, unless `warnings` is false."""

    def __init__(self, stream: TextIO, now: float, *, warnings: bool = True) -> None:
        self._stream = stream
        self._shows_warnings = warnings
        self._lock = threading.Lock()
        self._start = now
        self._due = now + FIRST_SECONDS
        self._warnings: list[str] = []

    def show(self, status: RunStatus) -> None:
        for warning in status.warnings:
            if self._shows_warnings and warning not in self._warnings:
                self.say(f"warning: {warning}")
        self._warnings = status.warnings
        now = time.monotonic()
        if now >= self._due:
            self._due = now + min(now - self._start, LINE_SECONDS)
            self.say(f"{time.strftime('%H:%M:%S')}  {line(status)}")

    def say(self, text: str) -> None:
        """May be called from any thread, as `Panel.say`."""
        with self._lock:
            self._stream.write(printable(text) + "\n")
            self._stream.flush()
