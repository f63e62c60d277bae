"""Taking a plan to a host: one ssh connection to look, and one to act if there is anything to do."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from common.errors import ConfigurationError, UnavailableError
from common.host.service.logs import printable
from deploy.install.step import File, Plan, Step

LEAST_PYTHON = (3, 11)
_CONNECT_SECONDS = 15
_TARGET = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.:-]*", re.ASCII)
_PROGRAM = re.compile(r"[A-Za-z0-9_/.+-]+", re.ASCII)
_READ_PROGRAM = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
_NOT_FOUND = 127


def check_target(text: str) -> str:
    """USER@HOST or HOST, and nothing that ssh or a shell could take for something else."""
    if not _TARGET.fullmatch(text):
        raise ConfigurationError(f"{text!r} is no host: write USER@HOST, as in root@gpu-box")
    return text


@dataclass(frozen=True)
class Way:
    """How programs are run on a host: the words before the one that is a line for its shell."""

    target: str
    words: tuple[str, ...]
    python: str = "python3"
    sudo: bool = False
    root: str = ""
    """A folder on the host that stands for its whole file system."""

    @classmethod
    def ssh(cls, target: str, *, config: Path | None = None, python: str = "python3", sudo: bool = False) -> Way:
        """By key alone, without a question; `config` as ssh -F takes it. Raises ConfigurationError."""
        if not _PROGRAM.fullmatch(python):
            raise ConfigurationError(f"{python!r} is no program's path: write one as in --python /usr/bin/python3.12")
        options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}")
        named = ("-F", str(config)) if config else ()
        return cls(target, ("ssh", *options, *named, "--", check_target(target)), python, sudo)

    def command(self) -> list[str]:
        """What is run here. What is run there never depends on what is sent: that goes over standard input."""
        there = f"{shlex.quote(self.python)} -c {shlex.quote(_READ_PROGRAM)}"
        return [*self.words, f"sudo -n {there}" if self.sudo else there]


@dataclass(frozen=True)
class Taken:
    """A step, and what became of it: good, due, done."""

    step: Step
    state: str
    text: str


def look(way: Way, plan: Plan) -> list[Taken]:
    """What of the plan is still due; changes nothing."""
    return list(_take(way, plan, None))


def act(way: Way, plan: Plan, due: Iterable[Step], told: Callable[[Taken], None]) -> None:
    """Takes the steps that are due; the content of other files is not sent. Raises UnavailableError."""
    for taken in _take(way, plan, set(map(id, due))):
        told(taken)


def _take(way: Way, plan: Plan, due: set[int] | None) -> Iterator[Taken]:
    """`due` are the ids of steps to take; None: look only."""
    with ExitStack() as stack:
        contents, described = [], []
        for step in plan.steps:
            plain = step.plain()
            if due is not None and isinstance(step, File) and id(step) in due:
                file, plain["bytes"] = stack.enter_context(step.content())
                contents.append(file)
            described.append(plain)
        needs = {"python": LEAST_PYTHON, "root": plan.root and not way.root}
        request = {"root": way.root, "act": due is not None, "needs": needs, "steps": described}
        program = files("deploy.install").joinpath("far.py").read_bytes()
        opening = io.BytesIO(_framed(program) + _framed(json.dumps(request).encode()))
        answers = _converse(way, [opening, *contents])
    for number, answer in enumerate(answers):
        if answer["state"] == "failed":
            where = f"{answer['name']}: " if "name" in answer else ""
            raise UnavailableError(f"{way.target}: {where}{printable(answer['text'])}")
        yield Taken(plan.steps[number], answer["state"], answer["text"])


def _framed(content: bytes) -> bytes:
    return b"%d\n%b" % (len(content), content)


def _converse(way: Way, outgoing: Sequence[BinaryIO]) -> list[dict[str, Any]]:
    """Sends all, then reads the answers, which are short; raises UnavailableError where the host cannot be reached."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(way.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        except FileNotFoundError:
            raise UnavailableError(f"{way.words[0]} is not installed here") from None
        with process:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # it ended early, and says why
                for content in outgoing:
                    shutil.copyfileobj(content, process.stdin)
                process.stdin.close()
            answers = [json.loads(line) for line in process.stdout if line.startswith(b"{")]
        if process.returncode and not (answers and answers[-1]["state"] == "failed"):
            said.seek(0)
            raise UnavailableError(f"{way.target}: {_trouble(way, process.returncode, said.read())}")
    return answers


def _trouble(way: Way, code: int, output: bytes) -> str:
    said = printable(output.decode(errors="replace")[-2000:]) or "it said nothing"
    if code == _NOT_FOUND:
        return f"{way.python} is not there: install Python {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer ({said})"
    return f"{said} (exit code {code}; `ssh -o BatchMode=yes {way.target} true` must work without a question)"
