"""The daemons that `train` starts: ended with it, whatever ends it, and their lines passed on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Self

from common.service.lifeline import Lifeline


class Child:
    """One daemon, and the thread that reads its lines."""

    def __init__(self, process: subprocess.Popen[str], say: Callable[[str], None]) -> None:
        """`say` takes each line it writes to stderr."""
        self._process = process
        self._reader = threading.Thread(target=self._read, args=(say,), name="child output", daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + N after signal N."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def terminate(self) -> None:
        """Asks it to stop."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """For its end; kills it after so long."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)

    def _read(self, say: Callable[[str], None]) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                say(line.rstrip("\n"))


class Children:
    """Context manager: what still runs at its end is killed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` takes the lines of all of them, from threads of their own."""
        self._say = say
        self._lifeline = Lifeline()
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills and reaps."""
        for child in self._children:
            child.wait(0.0)
        self._lifeline.close()

    def start(self, *arguments: str) -> Child:
        """`a3cd` with these arguments, in a session of its own: the terminal's Ctrl-C reaches only the parent."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "deploy.command", *arguments, "--lifeline"],
            stdin=self._lifeline.child_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=sys.platform != "win32",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        child = Child(process, self._say)
        self._children.append(child)
        return child
