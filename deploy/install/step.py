"""A step of a plan as plain data: what it is for, how to see that it is taken, what to do if not (`far` does both)."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Word = str | dict[str, str]
"""Of a command line; `{"path": P}` is a path on the host."""


def at(path: str) -> Word:
    """A word that is a path on the host."""
    return {"path": path}


@dataclass(frozen=True)
class Folder:
    """A folder is there; `mode` None: whatever it is."""

    path: str
    mode: int | None = None

    @property
    def what(self) -> str:
        """For a person."""
        return f"folder {self.path}"

    def plain(self) -> dict[str, Any]:
        """As `far` takes it."""
        return {"kind": "folder", "name": self.what, "path": self.path, "mode": self.mode}


@dataclass(frozen=True)
class File:
    """A file is there with this content; `keep`: with any content.

    `source` is the content, a local file, or a function that makes it, called only when the host has no such file.
    """

    path: str
    source: bytes | Path | Callable[[], bytes] = field(repr=False)
    mode: int = 0o644
    keep: bool = False

    @property
    def what(self) -> str:
        """For a person."""
        return f"file {self.path}{', unless there is one' if self.keep else ''}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content; empty where any content will do."""
        if self.keep:
            return ""
        with self.content() as (file, _):
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def content(self) -> Iterator[tuple[io.BufferedReader | io.BytesIO, int]]:
        """What is to be written, and its length."""
        if isinstance(self.source, Path):
            with self.source.open("rb") as file:
                yield file, self.source.stat().st_size
        else:
            content = self.source if isinstance(self.source, bytes) else self.source()
            yield io.BytesIO(content), len(content)

    def plain(self) -> dict[str, Any]:
        """As `far` takes it, but for the length of what follows."""
        described = {"path": self.path, "mode": self.mode, "keep": self.keep, "digest": self.digest}
        return {"kind": "file", "name": self.what, "bytes": 0, **described}


@dataclass(frozen=True)
class Absent:
    """Nothing is at this path."""

    path: str

    @property
    def what(self) -> str:
        """For a person."""
        return f"no {self.path}"

    def plain(self) -> dict[str, Any]:
        """As `far` takes it."""
        return {"kind": "absent", "name": self.what, "path": self.path}


@dataclass(frozen=True)
class Command:
    """A command is run, unless all of `unless` holds; never without a condition unless it only looks (`tell`).

    Conditions: `exists` and `absent` PATH; `succeeds` COMMAND; `prints` [COMMAND, lines of which it may print];
    `unchanged` [names of steps before]; `marked` [PATH, text], written there once the command has succeeded.
    """

    what: str
    argv: Sequence[Word]
    unless: Mapping[str, Any] = field(default_factory=dict)
    tell: bool = False
    """What it prints is for the operator."""

    def plain(self) -> dict[str, Any]:
        """As `far` takes it."""
        described = {"argv": list(self.argv), "unless": dict(self.unless), "tell": self.tell}
        return {"kind": "command", "name": self.what, **described}


Step = Folder | File | Absent | Command


@dataclass(frozen=True)
class Plan:
    """Steps in their order, and what the host must have."""

    title: str
    steps: tuple[Step, ...]
    root: bool = True
    """Only root can take them."""
    after: str = ""
    """A last word to the operator, once all is done."""


def names_of(steps: Sequence[Step]) -> list[str]:
    """For `unchanged`."""
    return [step.what for step in steps]


def digest_of(steps: Sequence[Step]) -> str:
    """A mark that differs when any of the steps does."""
    plain = [step.plain() for step in steps]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
