"""Actors as child processes on this machine, each started afresh (never a fork of a process that uses ZeroMQ)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from common.addresses import Address
from common.service import logs, notify
from common.service.lifeline import Lifeline
from deploy.backends.base import Backend, Ended

_LINE_BYTES = 4096
_LAST_LINES = 10
_OUTPUT_SECONDS = 0.5
"""Longest wait for the output of an actor that ended: a process of its own may hold the pipe open."""
_KILLED_SECONDS = 5.0
_NOT_STARTED = 127


def actor_name(launcher: str, slot: int) -> str:
    """What the actor in `slot` of a launcher is called; its successor has the same name."""
    return f"{launcher}-{slot}"


def actor_command(address: Address, launcher: str, slot: int) -> list[str]:
    """Command line of an actor on this machine; -P, since the working folder may hold a `common` of its own."""
    command = [sys.executable, "-P", "-m", "deploy.command", "actor", str(address)]
    return [*command, "--name", actor_name(launcher, slot), "--launcher", launcher, "--lifeline"]


def actor_environment() -> dict[str, str]:
    """One thread, no GPU, and nothing of what systemd told this process about itself."""
    inherited = {name: value for name, value in os.environ.items() if name not in notify.VARIABLES}
    return inherited | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class ProcessBackend(Backend):
    """Children that end with this process; what they print goes to stderr, line by line, under their name."""

    def __init__(self, command: Callable[[int], list[str]], name: Callable[[int], str]) -> None:
        """`command` and `name` of the actor in a slot."""
        self._command = command
        self._name = name
        self._lifeline = Lifeline()
        self._children: dict[int, _Child] = {}
        self._stillborn: dict[int, Ended] = {}

    def start(self, slot: int) -> None:
        """Starts a child in a session (Windows: process group) of its own, out of reach of the terminal's Ctrl-C."""
        try:
            process = subprocess.Popen(
                self._command(slot),
                stdin=self._lifeline.child_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=actor_environment(),
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as error:
            self._stillborn[slot] = Ended(slot, _NOT_STARTED, f"cannot be started: {error}")
        else:
            self._children[slot] = _Child(process, self._name(slot))

    def stop(self, slot: int, kill: bool = False) -> None:
        """SIGTERM (Windows: Ctrl-Break) to the actor; SIGKILL to it and all it started."""
        if slot in self._children:
            self._children[slot].end(kill)

    def poll(self) -> list[Ended]:
        """Reaps children; a child is told of once its output has been read."""
        ended, self._stillborn = list(self._stillborn.values()), {}
        for slot, child in list(self._children.items()):
            exit_code = child.exit_code()
            if exit_code is not None:
                del self._children[slot]
                ended.append(Ended(slot, exit_code, "\n".join(child.last_lines)))
        return ended

    @property
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""
        return {*self._children, *self._stillborn}

    def close(self) -> None:
        """Kills and reaps."""
        for child in self._children.values():
            child.end(kill=True)
        for child in self._children.values():
            child.wait()
        self._children.clear()
        self._lifeline.close()


class _Child:
    """A process and the thread that reads its output."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._process = process
        self._name = name
        self._ended_at: float | None = None
        assert process.stdout is not None
        self._reader = threading.Thread(
            target=self._forward, args=(process.stdout,), name=f"output of {name}", daemon=True
        )
        self._reader.start()

    def _forward(self, output: IO[bytes]) -> None:
        """Until all writers are gone; never stops reading, or the actor would block on its own log."""
        with output:
            while raw := output.readline(_LINE_BYTES):
                text = logs.printable(raw.decode(errors="replace"))
                self.last_lines.append(text)
                with contextlib.suppress(OSError, ValueError):  # our own stderr may be closed
                    sys.stderr.write(f"{self._name}  {text}\n")

    def exit_code(self) -> int | None:
        """Once the process is gone and its output read."""
        code = self._process.poll()
        if code is None:
            return None
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        if self._reader.is_alive() and now - self._ended_at < _OUTPUT_SECONDS:
            return None
        return code if code >= 0 else 128 - code

    def end(self, kill: bool) -> None:
        """The process is asked only while it is not reaped, so its number is still its own."""
        if self._process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                self._process.kill() if kill else self._process.send_signal(signal.CTRL_BREAK_EVENT)
            elif kill:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.terminate()

    def wait(self) -> None:
        """After a kill; a process that hangs in the kernel is left to its fate."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILLED_SECONDS)
        self._reader.join(_OUTPUT_SECONDS)
