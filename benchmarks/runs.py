"""Whole runs for benchmarks: real `a3cd` processes with a temporary run folder.

    with Training("CartPole-v1", "--seed", "3", label="seed 3") as training:
        result = training.finish(limit=120)

Progress goes to stderr. A process that hangs is killed, and with it (by the lifeline) everything that it started.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import psutil

from common.errors import A3cdError
from common.host.addresses import Address
from common.run import presets
from common.run.folder import RunFolder
from common.settings.toml import dump, override
from common.wire import sockets

PROGRESS_SECONDS = 10.0
STOP_SECONDS = 10.0
LAUNCHER = "fleet"
PORTS = range(26_000, 32_000)
"""Below the ephemeral ports that the system gives to connections."""


class RunFailedError(RuntimeError):
    """A run hung or ended with an error; the text holds its last lines."""


@dataclass(frozen=True)
class Result:
    """A run that has ended."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    """Metrics, one row a second."""
    lines: list[str]
    """Lines that it wrote to stderr."""
    started: float
    """Time at which its (first) process was started, in seconds since 1970."""
    seconds: float
    """Seconds from that start to the end of the last process."""

    def since_start(self, row: Mapping[str, Any]) -> float:
        """Return the seconds from the start of the process to this row."""
        return float(row["time"]) - self.started

    def at_episodes(self, episodes: int) -> dict[str, Any] | None:
        """Return the first row with at least this many episodes; None: the run ended before."""
        return next((row for row in self.rows if row["episodes"] >= episodes), None)


class Command:
    """`a3cd ARGUMENTS` as a process; a context manager that ends it."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = ("-P", "-m", "deploy.cli.command"),
        checkout: Path | None = None,
    ) -> None:
        """Start it; its standard input is the lifeline of a command with --lifeline.

        program: arguments for Python in place of a3cd's command. checkout: another checkout, whose a3cd it and its
        children run.
        """
        self.arguments = arguments
        self.lines: list[str] = []
        self.read_at: list[float] = []
        """Times at which the lines were read, in seconds since 1970."""
        self.process = psutil.Popen(
            [sys.executable, *program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=None if checkout is None else {**os.environ, "PYTHONPATH": str(checkout)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.read_at.append(time.time())
            self.lines.append(line.rstrip("\n"))

    def __enter__(self) -> Self:
        """Runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ask the process to end, then kill it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except psutil.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(1.0)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def succeeded(self) -> bool:
        """Return whether it has ended with exit code 0; raises RunFailedError for another exit code."""
        code = self.process.poll()
        if code not in (None, 0):
            self._reader.join(1.0)
            self.fail(f"exit code {code}")
        return bool(code == 0)

    def fail(self, why: str) -> NoReturn:
        """Raise RunFailedError with the process's last lines."""
        said = "\n  ".join(self.lines[-10:])
        raise RunFailedError(f"a3cd {' '.join(self.arguments)}: {why}\n  {said}")


class _Run:
    """The common part of both kinds of run: a folder, the wait for a command, progress."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._stack = ExitStack()
        where = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="a3cd-benchmark-"))
        self.folder = RunFolder(Path(where) / "run")
        self.started = time.time()

    def __enter__(self) -> Self:
        """Runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs, and remove the folder."""
        self._stack.close()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of metrics so far."""
        file = self.folder.metrics_file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def say(self, text: str) -> None:
        """Report progress on stderr."""
        print(f"{self.label}: {time.time() - self.started:.0f} s, {text}", file=sys.stderr, flush=True)

    def _finish(self, command: Command, limit: float) -> Result:
        shown = time.monotonic()
        while not command.succeeded():
            if time.time() - self.started > limit:
                command.fail(f"did not end within {limit:.0f} s")
            time.sleep(0.02)
            if time.monotonic() - shown >= PROGRESS_SECONDS:
                shown = time.monotonic()
                self.say(_progress(self.rows()))
        seconds = time.time() - self.started
        rows, summary = self.rows(), self.folder.summary()
        self.say(_progress(rows))
        return Result(summary, rows, command.lines, self.started, seconds)


class Training(_Run):
    """`a3cd train ENV ...`."""

    def __init__(
        self,
        env: str,
        *arguments: str,
        label: str,
        settings: Mapping[str, object] = {},
        checkout: Path | None = None,
    ) -> None:
        """Start it; `settings` by path, such as `limits.seconds`; `checkout` as for a Command."""
        super().__init__(label)
        assigned = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        command = ("train", env, *arguments, *assigned, "--run-dir", str(self.folder.path), "--json")
        self.command = self._stack.enter_context(Command(*command, checkout=checkout))

    def finish(self, limit: float) -> Result:
        """Wait for its end; raises RunFailedError after `limit` seconds."""
        return self._finish(self.command, limit)

    def wait(self, seconds: float, enough: Mapping[str, float]) -> None:
        """Wait until the newest row of metrics reaches all values of `enough`; RunFailedError after `seconds`."""
        until = time.monotonic() + seconds
        while not (rows := self.rows()) or any(rows[-1][column] < least for column, least in enough.items()):
            if self.command.succeeded() or time.monotonic() > until:
                self.command.fail(f"not within {seconds:.0f} s: {enough}")
            time.sleep(0.1)

    def processes(self, kind: str) -> list[psutil.Process]:
        """Return its daemons of one kind: learner, launcher or actor."""
        found = self.command.process.children(recursive=True)
        return [process for process in found if kind in process.cmdline()[:5]]


class Gathered(_Run):
    """A launcher and a learner started by hand: the learner starts when all actors wait for it, so all begin at once.

    Otherwise the first of many actors would have learnt the task before the last has loaded its libraries.
    """

    def __init__(self, preset: str, actors: int, *, label: str, settings: Mapping[str, object]) -> None:
        """Start the launcher with its actors."""
        super().__init__(label)
        self.actors = actors
        fixed = {"scaling.policy": "fixed", "scaling.minimum": actors, "scaling.maximum": actors}
        assigned = [f"{key}={json.dumps(value)}" for key, value in {**fixed, **settings}.items()]
        self._config = self.folder.path.with_suffix(".toml")
        self._config.write_text(dump(override(presets.show(preset).settings(), assigned)), encoding="utf-8")
        self._address = f"tcp://127.0.0.1:{free_port()}"
        slots = ("--slots", str(actors), "--prestart", str(actors))
        self._launcher = self._stack.enter_context(
            Command("launcher", self._address, *slots, "--name", LAUNCHER, "--lifeline")
        )

    def finish(self, limit: float) -> Result:
        """Start the learner once all actors wait, and wait for its end; raises RunFailedError after `limit` seconds."""
        while (waiting := self._waiting()) < self.actors:
            if self._launcher.succeeded() or time.time() - self.started > limit:
                self._launcher.fail(f"{waiting} of {self.actors} actors are ready")
            time.sleep(0.1)
        self.say(f"{self.actors} actors ready")
        where = ("--bind", self._address, "--config", str(self._config), "--run-dir", str(self.folder.path))
        with Command("learner", *where, "--lifeline") as learner:
            return self._finish(learner, limit)

    def _waiting(self) -> int:
        said = (line.split()[0] for line in list(self._launcher.lines) if "no answer from the learner" in line)
        return len({name for name in said if name.startswith(f"{LAUNCHER}-")})


def evaluate(folder: RunFolder, episodes: int, *, newest: bool = False) -> dict[str, Any]:
    """Run `a3cd evaluate` on the run's best checkpoint, or on its newest."""
    which = ("--newest",) if newest else ()
    with Command("evaluate", str(folder.path), *which, "--episodes", str(episodes), "--json") as command:
        while not command.succeeded():
            time.sleep(0.1)
        result: dict[str, Any] = json.loads(command.process.stdout.read())
    return result


def spent(process: psutil.Process) -> float:
    """Return the processor seconds of all its threads so far."""
    return float(sum(process.cpu_times()[:2]))


def free_port(among: Iterable[int] | None = None) -> int:
    """Return the first port of `among` that is free as is its successor; None: of 50 chosen at random from PORTS."""
    for port in random.sample(PORTS, 50) if among is None else among:
        try:
            pair = sockets.reserve_pair(Address("127.0.0.1", port))
        except A3cdError:
            continue
        for listener in pair:
            listener.close()
        return port
    raise RunFailedError("no two neighbouring ports are free")


def _progress(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "starting"
    row = rows[-1]
    mean = "no episode yet" if row["mean_return"] is None else f"mean return {row['mean_return']:.1f}"
    return f"{row['actors']} actors, {row['frames']:,} frames, {row['episodes']:,} episodes, {mean}"
