"""Child processes: started, read line by line, and ended when this process ends, for whatever reason."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from common.host.service import logs
from common.host.service.lifeline import Lifeline

_LINE_BYTES = 4096
_LAST_LINES = 10
_OUTPUT_SECONDS = 0.5
"""Longest wait for the output of a child that has ended: a process that it started may hold the pipe open."""
_KILLED_SECONDS = 5.0
_TERMINATE = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
"""Asks a child to end; on Windows it is Ctrl-Break, which goes to a process group."""


def a3cd(*arguments: str) -> list[str]:
    """The command line of `a3cd`: the script beside this Python if there is one, else the program that runs now."""
    script = Path(sys.executable).with_name("a3cd.exe" if sys.platform == "win32" else "a3cd")
    if script.exists():
        return [str(script), *arguments]
    if Path(sys.argv[0]).name == "__main__.py":  # `python -m a3cd`; that file is no program
        return [sys.executable, "-m", "a3cd", *arguments]
    return [sys.argv[0], *arguments]


def kill(process: subprocess.Popen[Any]) -> None:
    """Kills a process that has a session of its own, and (not on Windows) every process that it started."""
    if process.poll() is None:  # not reaped yet, so no other process can have its id
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


class Child:
    """A process in a session (Windows: process group) of its own, so that the terminal's Ctrl-C does not reach it."""

    def __init__(
        self,
        command: Sequence[str],
        lifeline: Lifeline,
        say: Callable[[str], None],
        *,
        stdout: bool = True,
        ended: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """Starts the process; `say` gets each line that it writes, on another thread.

        `stdout`: whether its standard output is read together with its standard error, or else thrown away. `ended`:
        called on that thread when the process will write no more. `keep_open`: descriptors that it inherits. Raises
        OSError if it cannot be started.
        """
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.silent = False
        """Whether the process has closed its output, most likely because it is about to end."""
        self._process = subprocess.Popen(
            command,
            stdin=lifeline.child_end,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if stdout else subprocess.PIPE,
            env=environment,
            pass_fds=keep_open,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        output = self._process.stdout or self._process.stderr
        arguments = (output, say, ended)
        self._reader = threading.Thread(target=self._read, args=arguments, name="child output", daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes], say: Callable[[str], None], ended: Callable[[], None]) -> None:
        """Reads until every writer has closed the pipe: a child whose output nobody reads would block on its log."""
        with output:
            while raw := output.readline(_LINE_BYTES):
                text = logs.printable(raw.decode(errors="replace"))
                self.last_lines.append(text)
                with contextlib.suppress(OSError, ValueError):  # our own stderr may be closed
                    say(text)
        self.silent = True
        ended()

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + N after signal N; None while the process runs.

        Once the process has ended, this waits a little until its output is read.
        """
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(_OUTPUT_SECONDS)
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        self._process.send_signal(_TERMINATE)

    def kill(self) -> None:
        kill(self._process)

    def wait(self, seconds: float) -> None:
        """Waits until the process ends, and kills it after `seconds`; one that hangs in the kernel is left alone."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_SECONDS)
        self._reader.join(_OUTPUT_SECONDS)


class Children(contextlib.AbstractContextManager["Children"]):
    """Child processes with a common lifeline, so that they end with this process.

    As a context manager, kills at its end those that still run.
    """

    def __init__(self) -> None:
        self._lifeline = Lifeline()
        self._children: list[Child] = []

    def start(self, command: Sequence[str], say: Callable[[str], None], **options: Any) -> Child:
        """Starts a child; `options` are those of `Child`."""
        self._children = [child for child in self._children if child.exit_code is None]
        self._children.append(Child(command, self._lifeline, say, **options))
        return self._children[-1]

    def close(self) -> None:
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait(0.0)
        self._lifeline.close()

    def __exit__(self, *_: object) -> None:
        self.close()
