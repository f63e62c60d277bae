"""`a3cd` as separate processes: started, watched and, whatever happens, ended with everything that they started."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.runs import PORTS, free_port
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.status import RunStatus
from deploy.cli.observer import Observer
from tests.helpers.programs import words_of
from tests.helpers.waiting import PATIENCE_SECONDS, until

_MARK = "A3CD_TEST_FAMILY"
"""Environment variable that marks a process and all its descendants, whoever their parent is by now."""
BROKEN = Path(__file__).parents[1] / "common" / "rl" / "environments"
"""Folder of the module broken_environments."""
_SHARE = 500
"""Number of ports for each of the processes that run tests at once; those of benchmarks come after all shares."""


def _own_ports() -> Iterator[int]:
    """Yields every second port of this process's share without end: all others come before one comes again."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    end = PORTS.start - _SHARE * (process % 12)
    share = range(end - _SHARE, end, 2)
    begin = random.randrange(len(share))  # another session of tests may be under way
    return itertools.cycle([*share[begin:], *share[:begin]])


_PORTS = _own_ports()


class Daemon:
    """One `a3cd` process, whose output goes to files."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self.arguments = arguments
        self._family = secrets.token_hex(8)
        self._out, self._err = folder / f"{self._family}.out", folder / f"{self._family}.err"
        environment = os.environ | {
            _MARK: self._family,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(BROKEN),
            "PYTHONWARNINGS": "default",
            "COLUMNS": "200",
            "TMPDIR": str(folder),
        }
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-m", "deploy.cli.command", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def said(self) -> str:
        """Everything on stderr so far, including that of its children."""
        return self._err.read_text(errors="replace")

    @property
    def printed(self) -> str:
        """Everything on stdout so far."""
        return self._out.read_text()

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        value = json.loads(self.printed)
        assert isinstance(value, dict)
        return value

    @property
    def errors(self) -> list[str]:
        """The lines that say why it ends."""
        return [line for line in self.said.splitlines() if " error: " in line]

    def wait_for(self, *texts: str) -> None:
        """Waits until all these texts are on stderr."""
        for text in texts:
            until(lambda text=text: text in self.said or self._ended_without(text), f"{text!r} from", of=self)  # type: ignore[misc]

    def _ended_without(self, text: str) -> None:
        if self._process.poll() is not None and text not in self.said:
            pytest.fail(f"{self} ended without {text!r}")

    @property
    def frames(self) -> int:
        """The number of frames that a training has last reported."""
        lines = [line for line in self.said.splitlines() if "  frames " in line]
        return int(lines[-1].partition("  frames ")[2].split()[0].replace(",", "")) if lines else 0

    def wait_for_frames(self, beyond: int) -> None:
        """Waits until a training has reported more frames; fails the test if it ends before."""

        def played() -> bool:
            if self._process.poll() is not None and self.frames <= beyond:
                pytest.fail(f"no more than {beyond} frames of {self}")
            return self.frames > beyond

        until(played, f"more than {beyond} frames of", of=self)

    def signal(self, number: int) -> None:
        """Signals this process alone."""
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Waits for its end and returns its exit code; fails the test if it or a child printed a traceback."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"does not end: {self}")
        assert "Traceback" not in self.said, self
        return code

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def family(self) -> list[psutil.Process]:
        """Returns it and its living descendants, whoever their parent is by now."""
        return list(_marked(self._family))

    def at_work(self) -> list[psutil.Process]:
        """Returns its family without a process that draws a curve, for which nobody waits."""
        drawing = {process.pid for process in self.members("curve")}
        return [process for process in self.family() if process.pid not in drawing]

    def members(self, *words: str) -> list[psutil.Process]:
        """Returns the members of its family whose command line has all these words."""
        return [process for process in self.family() if {*words} <= {*words_of(process)}]

    def destroy(self) -> None:
        """Kills its whole family."""
        while family := self.family():
            for process in family:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._process.wait()

    def __str__(self) -> str:
        """Returns a description for a failed test."""
        code = self._process.poll()
        return f"a3cd {' '.join(self.arguments)} (exit code {code})\n{self.said}"


def _marked(family: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == family:
                yield process


class Daemons:
    """Starts daemons in their own folder; `prefix`: a command that executes the command after it."""

    def __init__(self, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self.folder, self._prefix = folder, prefix
        self._started: list[Daemon] = []

    def start(self, *arguments: object) -> Daemon:
        """Starts `a3cd` with these arguments."""
        self._started.append(Daemon(tuple(map(str, arguments)), self.folder, self._prefix))
        return self._started[-1]

    def run(self, *arguments: object, code: int = 0, seconds: float = PATIENCE_SECONDS) -> Daemon:
        """Starts `a3cd`, and waits until it ends with this exit code."""
        daemon = self.start(*arguments)
        found = daemon.wait(seconds)
        assert found == code, daemon
        return daemon

    def __str__(self) -> str:
        """Returns a description for a failed test."""
        return "\n".join(map(str, self._started))

    def config(self, text: str, name: str = "run.toml") -> Path:
        """Writes a file of settings."""
        file = self.folder / name
        file.write_text(text)
        return file


@contextmanager
def daemons(folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[Daemons]:
    """Yields `Daemons`, and destroys every daemon afterwards; what they said is printed, for a test that has failed."""
    one = Daemons(folder, prefix)
    try:
        yield one
    finally:
        for daemon in one._started:
            daemon.destroy()
        print(one)


def free_address() -> Address:
    """Returns an address whose port is free, as is the next port, and which nobody else is given before it is used."""
    return Address("127.0.0.1", free_port(itertools.islice(_PORTS, 50)))


def status_when(
    address: Address, good: Callable[[RunStatus], object], what: str, seconds: float = PATIENCE_SECONDS
) -> RunStatus:
    """Returns the first status of the run at `address` for which `good` is true."""
    seen: list[RunStatus] = []
    with Observer(LearnerEndpoint(address), ask_seconds=0.1) as observer:

        def look() -> RunStatus | None:
            status = observer.next(1.0)
            if status is None:
                return None
            seen[:] = [status]
            return status if good(status) else None

        return until(look, what, seconds, of=seen)


def terminate(*some: Daemon) -> list[int]:
    """Sends SIGTERM to all, and returns their exit codes."""
    for daemon in some:
        daemon.signal(signal.SIGTERM)
    return [daemon.wait() for daemon in some]
