"""A child process and the thread that reads its lines."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from common.host.service import logs
from common.host.service.lifeline import Lifeline

_LINE_BYTES = 4096
_LAST_LINES = 10
_OUTPUT_SECONDS = 0.5
"""Longest wait for the output of a child that ended: a process of its own may hold the pipe open."""
_KILLED_SECONDS = 5.0


def kill(process: subprocess.Popen[Any]) -> None:
    """Ends a process with a session of its own, and (not on Windows) all that it started."""
    if process.poll() is None:  # not reaped yet, so its number is still its own
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


class Child:
    """In a session (Windows: process group) of its own, out of reach of the terminal's Ctrl-C."""

    def __init__(
        self,
        command: Sequence[str],
        lifeline: Lifeline,
        say: Callable[[str], None],
        *,
        stdout: bool = True,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """Starts it; `say` takes each line it writes, from a thread of its own; `stdout`: to standard output too.

        It inherits the descriptors `keep_open`. Raises OSError if it cannot be started.
        """
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._process = subprocess.Popen(
            command,
            stdin=lifeline.child_end,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if stdout else subprocess.PIPE,
            env=environment,
            pass_fds=keep_open,
            start_new_session=sys.platform != "win32",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._ended_at: float | None = None
        output = self._process.stdout or self._process.stderr
        assert output is not None
        self._reader = threading.Thread(target=self._read, args=(output, say), name="child output", daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes], say: Callable[[str], None]) -> None:
        """Until all writers are gone; never stops reading, or the child would block on its own log."""
        with output:
            while raw := output.readline(_LINE_BYTES):
                text = logs.printable(raw.decode(errors="replace"))
                self.last_lines.append(text)
                with contextlib.suppress(OSError, ValueError):  # our own stderr may be closed
                    say(text)

    @property
    def exit_code(self) -> int | None:
        """None while it runs or its output is still read; 128 + N after signal N."""
        code = self._process.poll()
        if code is None:
            return None
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        if self._reader.is_alive() and now - self._ended_at < _OUTPUT_SECONDS:
            return None
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Asks it to stop (Windows: by Ctrl-Break)."""
        if self._process.poll() is None:  # as in `kill`
            with contextlib.suppress(ProcessLookupError):
                if sys.platform == "win32":
                    self._process.send_signal(signal.CTRL_BREAK_EVENT)
                else:
                    self._process.terminate()

    def kill(self) -> None:
        """Ends it and (not on Windows) all that it started."""
        kill(self._process)

    def wait(self, seconds: float) -> None:
        """For its end; kills it after so long. One that then hangs in the kernel is left to its fate."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_SECONDS)
        self._reader.join(_OUTPUT_SECONDS)
