"""An ssh to a holder, made again whenever it breaks; a thread of its own reads it."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from common.errors import WireError
from deploy.backends.client import last_line
from deploy.backoff import backoff
from deploy.hold.messages import MAX_LINE, AnyLine, Greeting, Holding, Refused, decode, encode

SILENT_SECONDS = 30.0
"""Without a word, at the start as later: the connection is given up and made again."""
_SSH_FAILED = 255
_HOPELESS_FAILURES = 5
"""Refused: tried again, but seldom."""
_END_SECONDS = 5.0
_TAIL_BYTES = 4096


class Connection:
    """Tells of each line that comes, and of its loss; what it cannot send is lost, and made up for by who uses it."""

    def __init__(
        self, command: Sequence[str], greeting: Greeting, hear: Callable[[AnyLine], None], lost: Callable[[], None]
    ) -> None:
        """`hear` and `lost` are called from the connection's thread."""
        self.trouble = ""
        """Why there is none now, in one line."""
        self.tried = False
        """Whether the first attempt is over."""
        self.contact = time.monotonic()
        """When the other end last said anything."""
        self._command = command
        self._greeting = greeting
        self._hear = hear
        self._lost = lost
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = math.inf
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0

    def start(self) -> None:
        """Begins to connect, if it has not yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="connection", daemon=True)
            self._thread.start()

    def send(self, line: AnyLine) -> None:
        """Without waiting; a connection that does not take it is of no use."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return
            raw = encode(line)
            try:
                sent = os.write(process.stdin.fileno(), raw)
            except OSError:
                sent = 0
            if sent < len(raw):
                process.kill()

    def check(self, now: float) -> None:
        """Breaks a connection that has gone silent."""
        with self._lock:
            if self._process is not None and now - max(self.contact, self._begun) > SILENT_SECONDS:
                self._process.kill()

    def leave(self) -> None:
        """What was sent still arrives; the end of its input ends ssh and the relay."""
        self._leaving.set()
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def close(self, seconds: float) -> None:
        """After `leave`: waits for the end, and makes it after so long."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))
            with self._lock:
                if self._process is not None:
                    self._process.kill()
            self._thread.join(SILENT_SECONDS)

    def _work(self) -> None:
        while not self._leaving.is_set():
            why = self._connect()
            self._lost()
            self._failures += 1
            self.trouble, self.tried = why, True
            self._leaving.wait(backoff(self._failures))

    def _connect(self) -> str:
        """From beginning to end of one connection; why it ended."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=sys.platform != "win32",
                )
            except OSError as error:
                return f"{self._command[0]}: cannot be run: {error}"
            assert process.stdin is not None and process.stdout is not None
            os.set_blocking(process.stdin.fileno(), False)
            with self._lock:
                self._process, self._begun = process, time.monotonic()
            self.send(self._greeting)
            if self._leaving.is_set():
                self.leave()
            refused = self._read(process.stdout)
            with self._lock:
                self._process = None
            exit_code = _end(process, kill=bool(refused))
            return refused or self._why(exit_code, errors)

    def _read(self, lines: IO[bytes]) -> str:
        """Until the end; why the other end does not want to go on, if it says so."""
        while raw := lines.readline(MAX_LINE):
            self.contact = time.monotonic()
            try:
                line = decode(raw)
            except WireError as error:
                self._failures = _HOPELESS_FAILURES
                return f"{error}; does the login there print something?"
            if isinstance(line, Refused):
                self._failures = _HOPELESS_FAILURES
                return line.why
            if isinstance(line, Holding):
                self.trouble, self.tried, self._failures = "", True, 0
            self._hear(line)
        return ""

    def _why(self, exit_code: int, errors: IO[bytes]) -> str:
        """ssh's own failures have a code of their own."""
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
        said = last_line(errors.read().decode(errors="replace")) or "the connection broke"
        if exit_code in (_SSH_FAILED, 0) or exit_code < 0:
            return f"ssh: {said}"
        return f"{' '.join(self._command[-2:])}: {said} (exit code {exit_code})"


def _end(process: subprocess.Popen[bytes], kill: bool) -> int:
    """Its exit code; one whose output has ended is about to end by itself."""
    with process:
        if kill:
            process.kill()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
