"""Follows the pages of docs/tutorials/ to the letter: writes and edits files, types commands, runs programs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

from tests.helpers.daemons import Daemon, Daemons
from tests.helpers.waiting import PATIENCE_SECONDS

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
_NAME = re.compile(r"`([\w./-]+\.\w+)`")
_HOST = re.compile(r"\b[Oo]n `([\w-]+)`")


@dataclass(frozen=True)
class File:
    """A block after a paragraph that begins with the file's name."""

    name: str
    text: str


@dataclass(frozen=True)
class Edit:
    """A block of `diff`: the file's name, then lines, of which those with - are removed and those with + added."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Program:
    """Any other block of Python."""

    text: str


@dataclass(frozen=True)
class Command:
    """An indented line that begins with `a3cd`, and the indented lines after it, which it prints."""

    line: str
    host: str
    """The last host that the page has named, as in: on `lab-01`."""
    prints: tuple[str, ...] = ()


Step = File | Edit | Program | Command


def steps(name: str) -> list[Step]:
    """Returns the steps of the page `name`, in order."""
    return read((FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def read(text: str) -> list[Step]:
    """Returns the steps in a page's text; raises AssertionError for a block that is no step."""
    found: list[Step] = []
    said = host = ""
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        if token.type == "inline":
            said = token.content
            host = (_HOST.findall(said) or [host])[-1]
        elif token.type == "fence":
            found.append(_block(token.info, token.content, said))
        elif token.type == "code_block":
            found += _commands(token.content, host)
    return found


def _block(kind: str, text: str, said: str) -> Step:
    if kind == "diff":
        head, *lines = text.splitlines()
        before, after = ("\n".join(line[1:] for line in lines if line[:1] in (" ", sign)) for sign in ("-", "+"))
        return Edit(head.strip(), before, after)
    if named := _NAME.match(said):
        return File(named[1], text)
    assert kind == "python", f"neither a file nor a program: {text}"
    return Program(text)


def _commands(text: str, host: str) -> list[Step]:
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("a3cd "):
            found.append(Command(line, host))
        else:
            assert found, f"no command: {line}"
            found[-1] = Command(found[-1].line, host, (*found[-1].prints, line))
    return list(found)


@dataclass
class Reader:
    """Follows a page in the folder of `daemons`."""

    daemons: Daemons
    aside: tuple[str, ...] = ()
    """Beginnings of commands that are left running, as in a terminal of their own."""
    instead: dict[str, str] = field(default_factory=dict)
    """Replacements for words of the page, in commands and in what they print."""

    def follow(self, *some: Step) -> list[Daemon]:
        """Follows the steps; returns the commands' daemons.

        Fails the test if a step does not work, or does not print what the page says.
        """
        return [daemon for step in some for daemon in self._do(step)]

    def _do(self, step: Step) -> list[Daemon]:
        match step:
            case File(name, text):
                path = self.daemons.folder / name
                assert not path.exists(), path
                path.write_text(text)
            case Edit(name, before, after):
                path = self.daemons.folder / name
                text = path.read_text()
                assert text.count(f"{before}\n") == 1, f"{path}: {before}"
                path.write_text(text.replace(f"{before}\n", f"{after}\n"))
            case Program(text):
                self._run(text)
            case Command(line, _, prints):
                return [self._type(line, prints)]
        return []

    def _type(self, line: str, prints: tuple[str, ...]) -> Daemon:
        daemon = self.daemons.start(*shlex.split(self._said(line), comments=True)[1:])
        if not line.startswith(self.aside):
            code = daemon.wait()
            assert bool(code) == any(told.startswith("error: ") for told in prints), daemon
        for told in map(self._said, prints):
            pattern = ".*".join(map(re.escape, told.split("...")))
            assert re.search(f"{pattern}$", daemon.printed + daemon.said, re.MULTILINE), f"{told}\n{daemon}"
        return daemon

    def _said(self, text: str) -> str:
        for words, others in self.instead.items():
            text = text.replace(words, others)
        return text

    def _run(self, text: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self.daemons.folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
