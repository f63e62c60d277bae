"""Runs tools (systemctl, squeue, ssh, ...) without a shell, each under a time limit."""

import subprocess
from pathlib import Path

from common.host.service import logs, notify
from deploy.children import kill

_WHY_CHARACTERS = 500


class ToolError(Exception):
    """A tool failed; the text is one line with its name and the last line it wrote."""


def run(*words: str, stdin: str = "", seconds: float = 10.0) -> str:
    """Runs a tool and returns its standard output; raises ToolError if it cannot be run, fails, or takes too long."""
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
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{program}: cannot be run: {error}") from None
    try:
        out, errors = process.communicate(stdin, seconds)
    except subprocess.TimeoutExpired:
        kill(process)  # and what it started, which may hold the pipes open
        process.communicate()
        raise ToolError(f"{program}: no answer within {seconds:.0f} s") from None
    if process.returncode:
        said = last_line(errors) or last_line(out) or "no message"
        raise ToolError(f"{program}: {said.removeprefix(f'{program}: ')} (exit code {process.returncode})")
    return out


def last_line(text: str) -> str:
    """The last line of a tool's output, printable and at most 500 characters long."""
    return logs.printable(text.rstrip().rpartition("\n")[2].strip())[:_WHY_CHARACTERS]
