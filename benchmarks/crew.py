"""A learner, launchers and actors as an operator would run them for weeks: each is started again when it ends.

The learner listens on 127.0.0.1; each group of peers reaches it through its own link (benchmarks/link.py) at its own
address. Call `Crew.look` often: it restarts daemons that have ended.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from benchmarks.link import Link
from benchmarks.runs import Command, free_port
from common.errors import EXIT_TRY_LATER, A3cdError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.folder import RunFolder
from common.run.status import RunStatus
from deploy.cli.observer import Observer

RESTART_SECONDS = 0.5
HOME = "127.0.0.1"
AWAY = "127.0.0.9"
"""A second address of this machine, to which the learner can move."""


@dataclass
class Member:
    """A daemon that is kept running."""

    name: str
    arguments: tuple[str, ...]
    command: Command
    ends: list[int] = field(default_factory=list)
    """Exit codes of its earlier processes."""
    expected: bool = False
    """Whether the crew itself ended the process, so that its end is expected."""
    due: float = 0.0

    @property
    def process(self) -> psutil.Process:
        """The process that runs now, or ran last."""
        return self.command.process

    def signal(self, number: int) -> None:
        """Signal the daemon alone, not its children; it is started again if that ends it."""
        if self.command.process.poll() is None:
            self.expected = self.expected or number in (signal.SIGKILL, signal.SIGTERM)
            self.command.process.send_signal(number)


class Crew:
    def __init__(self, config: str, *, launchers: Sequence[int], by_hand: int) -> None:
        """`config`: the run's settings as TOML; `launchers`: slots of each; `by_hand`: number of further actors."""
        self._stack = ExitStack()
        self.path = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="a3cd-crew-")))
        self.folder = RunFolder(self.path / "run")
        self.config = self.path / "run.toml"
        self.config.write_text(config, encoding="utf-8")
        self.port = free_port()
        self.home = HOME
        self.unexpected: list[str] = []
        """Descriptions of ends that the crew did not cause."""
        self.members: dict[str, Member] = {}
        groups = [f"launcher-{number}" for number in range(len(launchers))] + ["by-hand"] * bool(by_hand)
        self.links = {
            group: self._stack.enter_context(Link(f"127.0.0.{2 + number}", HOME, self.port))
            for number, group in enumerate(groups)
        }
        self._addresses = {group: f"tcp://127.0.0.{2 + number}:{self.port}" for number, group in enumerate(groups)}
        self._launchers, self._by_hand = launchers, by_hand
        self._observer: Observer | None = None

    def __enter__(self) -> Self:
        self._start("learner", *self.learner_words())
        for number, slots in enumerate(self._launchers):
            name = f"launcher-{number}"
            self._start(name, "launcher", self._addresses[name], "--slots", str(slots), "--name", name, "--lifeline")
        for number in range(self._by_hand):
            name = f"by-hand-{number}"
            self._start(name, "actor", self._addresses["by-hand"], "--name", name, "--lifeline")
        return self

    def __exit__(self, *_: object) -> None:
        self._forget_observer()
        for member in self.members.values():
            for process in (member.command.process, *self._children(member)):
                with suppress(psutil.Error):
                    process.kill()
            member.command.__exit__()
        self._stack.close()

    def learner_words(self) -> tuple[str, ...]:
        bind = ("--bind", f"tcp://{self.home}:{self.port}")
        return "learner", "--config", str(self.config), "--run-dir", str(self.folder.path), *bind, "--resume-or-create"

    @property
    def learner(self) -> Member:
        return self.members["learner"]

    def actors(self) -> list[psutil.Process]:
        """Return the processes of all actors, started by launchers or by hand."""
        by_hand = [member.process for name, member in self.members.items() if name.startswith("by-hand")]
        found = [process for process in by_hand if process.poll() is None]
        for name, member in self.members.items():
            if name.startswith("launcher"):
                found += self._children(member)
        return found

    def move(self) -> None:
        """End the learner with SIGTERM; it is started again at the other address, to which the links then lead."""
        self._forget_observer()
        self.home = AWAY if self.home == HOME else HOME
        self.learner.signal(signal.SIGTERM)
        self.learner.arguments = self.learner_words()
        for link in self.links.values():
            link.lead_to(self.home)

    def look(self) -> None:
        """Restart each daemon a moment after its end, and note unexpected ends."""
        now = time.monotonic()
        for member in self.members.values():
            code = member.command.process.poll()
            if code is None:
                continue
            if not member.due:
                member.due = now + RESTART_SECONDS
                member.ends.append(code)
                later = member is self.learner and code == EXIT_TRY_LATER  # another learner still has the folder
                if not member.expected and not later:
                    said = "\n    ".join(member.command.lines[-8:])
                    self.unexpected.append(f"{member.name} ended with {code}:\n    {said}")
            elif now >= member.due:
                member.command.__exit__()
                member.due, member.expected = 0.0, False
                member.command = Command(*member.arguments)

    def status(self, seconds: float = 1.0) -> RunStatus | None:
        """Return the learner's status; None: it does not answer within `seconds`."""
        if self._observer is None:
            self._observer = Observer(LearnerEndpoint(Address(self.home, self.port)), ask_seconds=0.2)
        try:
            return self._observer.next(seconds)
        except A3cdError:
            self._forget_observer()
            return None

    def _forget_observer(self) -> None:
        if self._observer is not None:
            self._observer.__exit__()
        self._observer = None

    def _start(self, name: str, *arguments: str) -> None:
        self.members[name] = Member(name, arguments, Command(*arguments))

    def _children(self, member: Member) -> list[psutil.Process]:
        try:
            return [child for child in member.process.children(recursive=True) if "actor" in child.cmdline()[:5]]
        except psutil.Error:
            return []
