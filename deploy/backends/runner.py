"""Runs tools (systemctl, squeue, ssh, ...) without a shell, each under a time limit."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.host.service import logs, notify
from deploy.children import kill

MOST_BYTES = 16 << 20
"""Most that is read of a tool's output."""
_WHY_CHARACTERS = 500
_KILLED_SECONDS = 5.0


class ToolError(Exception):
    """A tool failed; the text is one line with its name and the last line it wrote."""


def run(*words: str, stdin: str = "", seconds: float = 10.0, unset: str = "") -> str:
    """Runs a tool and returns its standard output; raises ToolError if it cannot be run, fails, or takes too long.

    It is done when it ends. What it leaves running in the background goes on, and nobody waits for it. `unset`: a
    regular expression; the tool does not get the environment variables whose whole names match.
    """
    program = Path(words[0]).name
    try:
        with tempfile.TemporaryDirectory(prefix="a3cd-", ignore_cleanup_errors=True) as folder:
            given, out, errors = (Path(folder, name) for name in ("stdin", "stdout", "stderr"))
            given.write_text(stdin, encoding="utf-8")
            exit_code = _exit_code(words, given, out, errors, seconds, unset)
            said, complained, much = _end(out), _end(errors), out.stat().st_size > MOST_BYTES
    except OSError as error:
        raise ToolError(f"{program}: cannot be run: {error}") from None
    if exit_code is None:
        raise ToolError(f"{program}: no answer within {seconds:.0f} s")
    if exit_code:
        why = last_line(complained) or last_line(said) or "no message"
        raise ToolError(f"{program}: {why.removeprefix(f'{program}: ')} (exit code {exit_code})")
    if much:
        raise ToolError(f"{program}: wrote more than {MOST_BYTES} bytes")
    return said


def _exit_code(words: Sequence[str], given: Path, out: Path, errors: Path, seconds: float, unset: str) -> int | None:
    """Runs a tool with these files as its standard streams; None: it did not end in time, and was killed.

    Files, not pipes: a pipe would not end before the last background process that the tool leaves behind.
    """
    environment = {name: value for name, value in notify.inherited().items() if not re.fullmatch(unset, name)}
    with given.open("rb") as stdin, out.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment | {"LC_ALL": "C"},  # messages in English
            start_new_session=True,
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)  # and what it started
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel is left alone
            process.wait(_KILLED_SECONDS)
        return None


def _end(path: Path) -> str:
    """The last MOST_BYTES of what a tool wrote, with its lines ended by newlines alone."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_BYTES))
        text = file.read(MOST_BYTES).decode(errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def last_line(text: str) -> str:
    """The last line of a tool's output, printable and at most 500 characters long."""
    return logs.printable(text.rstrip().rpartition("\n")[2].strip())[:_WHY_CHARACTERS]
