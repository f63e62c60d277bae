"""`a3cd` as processes of their own: started, watched and, whatever happens, ended with all that they started."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.status import RunStatus
from common.wire import sockets
from deploy.cli.observer import Observer

PATIENCE_SECONDS = 100.0
"""For anything that will come; loading torch takes ten seconds where all cores are busy."""
_LOOK_SECONDS = 0.05
_MARK = "A3CD_TEST_FAMILY"
"""In the environment of a process and all its descendants, whoever their parent is by now."""
BROKEN = Path(__file__).parents[1] / "common" / "rl" / "environments"
"""Where the module broken_environments is."""

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS, *, of: object = "") -> T:
    """The first thing that `look` gives which is true; fails the test, telling of `of` as it is then, if none comes."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what} {of}")
        time.sleep(_LOOK_SECONDS)
    return found


class Daemon:
    """One `a3cd` process; what it writes goes to files."""

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
        """Everything on stderr so far, that of its children included."""
        return self._err.read_text(errors="replace")

    @property
    def printed(self) -> str:
        """Everything on stdout so far."""
        return self._out.read_text()

    @property
    def result(self) -> dict[str, Any]:
        """The one object on stdout."""
        value = json.loads(self.printed)
        assert isinstance(value, dict)
        return value

    @property
    def errors(self) -> list[str]:
        """The lines in which it says why it ends."""
        return [line for line in self.said.splitlines() if " error: " in line]

    def wait_for(self, *texts: str) -> None:
        """Until all of them stand on stderr."""
        for text in texts:
            until(lambda text=text: text in self.said or self._ended_without(text), f"{text!r} from", of=self)  # type: ignore[misc]

    def _ended_without(self, text: str) -> None:
        if self._process.poll() is not None and text not in self.said:
            pytest.fail(f"{self} ended without {text!r}")

    @property
    def frames(self) -> int:
        """As a training told last."""
        lines = [line for line in self.said.splitlines() if "  frames " in line]
        return int(lines[-1].partition("  frames ")[2].split()[0].replace(",", "")) if lines else 0

    def wait_for_frames(self, beyond: int) -> None:
        """Until a training has told of more; fails the test if it ends before."""

        def played() -> bool:
            if self._process.poll() is not None and self.frames <= beyond:
                pytest.fail(f"no more than {beyond} frames of {self}")
            return self.frames > beyond

        until(played, f"more than {beyond} frames of", of=self)

    def signal(self, number: int) -> None:
        """To it alone."""
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code, once it has ended; fails the test for a traceback of it or of its children."""
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
        """It and all that it started and that still live, whoever their parent is by now."""
        return list(_marked(self._family))

    def at_work(self) -> list[psutil.Process]:
        """Its family but for who draws a curve: nobody waits for that."""
        drawing = {process.pid for process in self.members("curve")}
        return [process for process in self.family() if process.pid not in drawing]

    def members(self, *words: str) -> list[psutil.Process]:
        """Those of its family whose command line has all these words."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                if set(words) <= set(process.cmdline()):
                    found.append(process)
        return found

    def destroy(self) -> None:
        """Nothing of it is left afterwards."""
        while family := self.family():
            for process in family:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._process.wait()

    def __str__(self) -> str:
        """For a test that failed."""
        code = self._process.poll()
        return f"a3cd {' '.join(self.arguments)} (exit code {code})\n{self.said}"


def _marked(family: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == family:
                yield process


class Daemons:
    """Starts them in a folder of their own; `prefix`: a command that runs another one, and becomes it."""

    def __init__(self, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self.folder, self._prefix = folder, prefix
        self._started: list[Daemon] = []

    def start(self, *arguments: object) -> Daemon:
        """`a3cd` with these arguments."""
        self._started.append(Daemon(tuple(map(str, arguments)), self.folder, self._prefix))
        return self._started[-1]

    def run(self, *arguments: object, code: int = 0, seconds: float = PATIENCE_SECONDS) -> Daemon:
        """The same, until it has ended with this exit code."""
        daemon = self.start(*arguments)
        found = daemon.wait(seconds)
        assert found == code, daemon
        return daemon

    def __str__(self) -> str:
        """For a test that failed."""
        return "\n".join(map(str, self._started))

    def config(self, text: str, name: str = "run.toml") -> Path:
        """A file of settings."""
        file = self.folder / name
        file.write_text(text)
        return file


@contextmanager
def daemons(folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[Daemons]:
    """Whatever was started is gone afterwards."""
    one = Daemons(folder, prefix)
    try:
        yield one
    finally:
        for daemon in one._started:
            daemon.destroy()


def free_address() -> Address:
    """With a port that is free, as is the next."""
    pair = sockets.reserve_pair(Address("127.0.0.1", 0))
    port = pair[0].getsockname()[1]
    for listener in pair:
        listener.close()
    return Address("127.0.0.1", port)


def status_when(
    address: Address, good: Callable[[RunStatus], object], what: str, seconds: float = PATIENCE_SECONDS
) -> RunStatus:
    """The first status of the run at `address` that is as wanted."""
    with Observer(LearnerEndpoint(address), ask_seconds=0.1) as observer:

        def look() -> RunStatus | None:
            status = observer.next(1.0)
            return status if status is not None and good(status) else None

        return until(look, what, seconds)


def terminate(*some: Daemon) -> list[int]:
    """SIGTERM to all; their exit codes."""
    for daemon in some:
        daemon.signal(signal.SIGTERM)
    return [daemon.wait() for daemon in some]
