"""Client programs of other managers (systemctl, squeue, ...): run without a shell, each under a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from common.host.service import logs, notify
from deploy.child import kill

CLIENT_SECONDS = 10.0
_WHY_CHARACTERS = 500


class ClientError(Exception):
    """A client program failed; the text is one line: which, and its last words."""


@dataclass(frozen=True)
class Answer:
    """What a program said."""

    program: str
    exit_code: int
    out: str
    error: str

    def check(self) -> str:
        """Its standard output; raises ClientError if it failed."""
        if self.exit_code == 0:
            return self.out
        said = last_line(self.error) or last_line(self.out) or "it said nothing"
        said = said.removeprefix(f"{self.program}: ")
        raise ClientError(f"{self.program}: {said} (exit code {self.exit_code})")


class Client:
    """Runs one program at a time, on the caller's thread; `abort` from another ends the waiting."""

    def __init__(self, seconds: float = CLIENT_SECONDS) -> None:
        """A program that takes longer is killed."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._aborted = False

    def call(self, *words: str, stdin: str = "") -> Answer:
        """Raises ClientError if it is not there, or does not answer in time."""
        program = os.path.basename(words[0])  # noqa: PTH119 (a word, not a path of ours)
        process = self._start(program, words)
        try:
            out, error = process.communicate(stdin, self._seconds)
        except subprocess.TimeoutExpired:
            kill(process)  # with what it started: that may hold the pipes open
            process.communicate()
            raise ClientError(f"{program}: no answer within {self._seconds:.0f} s") from None
        finally:
            self._process = None
        return Answer(program, process.returncode, out, error)

    def _start(self, program: str, words: Sequence[str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._aborted:
                raise ClientError(f"{program}: not run, the launcher is ending")
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                    env=notify.inherited() | {"LC_ALL": "C"},  # messages in English
                    start_new_session=sys.platform != "win32",
                )
            except OSError as error:
                raise ClientError(f"{program}: cannot be run: {error}") from None
            return self._process

    def abort(self) -> None:
        """Kills the program at work, if any; no more are run."""
        with self._lock:
            self._aborted = True
            if self._process is not None:
                kill(self._process)


def last_line(text: str) -> str:
    """Of what a program said, bounded and printable."""
    return logs.printable(text.rstrip().rpartition("\n")[2].strip())[:_WHY_CHARACTERS]
