"""Runs tools (systemctl, squeue, ssh, ...) without a shell, each under a time limit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from common.host.service import logs, notify
from deploy.children import kill

TOOL_SECONDS = 10.0
_WHY_CHARACTERS = 500


class ToolError(Exception):
    """A tool failed; the text is one line with its name and the last line it wrote."""


@dataclass(frozen=True)
class Answer:
    """What a tool wrote, and its exit code."""

    program: str
    exit_code: int
    out: str
    error: str

    def check(self) -> str:
        """Standard output; raises ToolError if the tool failed."""
        if self.exit_code == 0:
            return self.out
        said = last_line(self.error) or last_line(self.out) or "no message"
        raise ToolError(f"{self.program}: {said.removeprefix(f'{self.program}: ')} (exit code {self.exit_code})")


class Runner:
    """Runs tools on this machine."""

    def __init__(self, seconds: float = TOOL_SECONDS) -> None:
        """A tool that takes longer than `seconds` is killed."""
        self._seconds = seconds

    def run(self, *words: str, stdin: str = "") -> Answer:
        """Raises ToolError if the tool is not there or takes too long."""
        program = Path(words[0]).name
        try:
            process = subprocess.Popen(
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
            raise ToolError(f"{program}: cannot be run: {error}") from None
        try:
            out, error_text = process.communicate(stdin, self._seconds)
        except subprocess.TimeoutExpired:
            kill(process)  # and what it started, which may hold the pipes open
            process.communicate()
            raise ToolError(f"{program}: no answer within {self._seconds:.0f} s") from None
        return Answer(program, process.returncode, out, error_text)


def last_line(text: str) -> str:
    """The last line of a tool's output, printable and at most 500 characters long."""
    return logs.printable(text.rstrip().rpartition("\n")[2].strip())[:_WHY_CHARACTERS]
