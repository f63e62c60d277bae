"""Train on this machine: learner and launcher as processes, the same that a person would start by hand."""

import json
import os
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from common.errors import (
    EXIT_CONFIGURATION,
    EXIT_DONE,
    EXIT_SIGINT,
    EXIT_SIGTERM,
    EXIT_TRY_LATER,
    EXIT_USAGE,
    ConfigurationError,
    UnavailableError,
)
from common.host.addresses import DEFAULT_PORT, Address
from common.host.modules import module_of
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.run.folder import RunFolder
from common.run.status import RunStatus
from common.settings.toml import dump
from common.wire import sockets
from deploy.children import Child, Children, a3cd
from deploy.cli import preflight
from deploy.cli.elapsed import since_start
from deploy.cli.observer import Observer
from deploy.cli.request import TrainRequest
from deploy.cli.view.progress import open_view

STOP_SECONDS = 4.5
"""For learner and launcher to end by themselves, within the five that the operator is promised."""
LOOK_SECONDS = 0.1
EXPLAINED = frozenset({EXIT_DONE, EXIT_USAGE, EXIT_TRY_LATER, EXIT_CONFIGURATION, EXIT_SIGINT, EXIT_SIGTERM})
"""Exit codes that a learner has explained itself."""
Start = Callable[..., Child]
"""Starts `a3cd` with the words given; it inherits the descriptors `keep_open`."""


def train(request: TrainRequest, *, as_json: bool) -> int:
    """Run until the learner has ended; print the result on stdout and return the exit code. Raises as `supervise`.

    Nothing is started for a run that is over.
    """
    folder = RunFolder(request.run_dir)
    end = preflight.why_over(request.settings, folder) if request.resume else ""
    if end and (summary := _summary(request.run_dir)) is not None:
        click.echo(f"{folder.path}: the run is over: {end}; it goes on with a higher limit or goal", err=True)
        code = EXIT_DONE
    else:
        code, summary = supervise(request)
    nothing = summary is not None and code == EXIT_DONE and not summary["frames"]
    if summary is not None:
        summary |= {"seconds": since_start(), "exit_code": EXIT_TRY_LATER if nothing else code}
        click.echo(json.dumps(summary) if as_json else _text(summary))
    if nothing:
        raise UnavailableError("the run is over before its first frame: no actor played in that time; use a longer one")
    return code


def supervise(request: TrainRequest) -> tuple[int, dict[str, Any] | None]:
    """Run until the learner has ended; progress goes to stderr.

    Returns the learner's exit code, or that of a signal to this process, and the run's summary; None: it wrote none.
    Raises UnavailableError when learner or launcher die, or no actor can be started now; ConfigurationError when none
    ever could be, and as `preflight.check` before anything is started.
    """
    preflight.check(request.settings, RunFolder(request.run_dir), request.resume)
    earlier = _summary(request.run_dir)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        view = stack.enter_context(open_view())
        children = stack.enter_context(Children())
        folder = tempfile.TemporaryDirectory(prefix="a3cd-")
        config = Path(stack.enter_context(folder), "run.toml")
        config.write_text(dump(request.settings), encoding="utf-8")
        others = _Lines(view.say)

        def start(say: Callable[[str], None], *words: str, keep_open: Sequence[int] = ()) -> Child:
            return children.start(a3cd(*words, "--lifeline"), say, stdout=False, keep_open=keep_open)

        learner, address = _start_learner(partial(start, view.say), request, config)
        launcher = _start_launcher(partial(start, others.say), request, address)
        observer = stack.enter_context(Observer(LearnerEndpoint(address)))
        while learner.exit_code is None and signals.requested is None:
            status = observer.next(LOOK_SECONDS)
            if status is not None:
                folder.cleanup()  # the learner has read it; now, so that a training that is killed leaves nothing
                others.release()
                view.show(status)
                _check(status, launcher, learner)
            if launcher.exit_code:
                others.release()
                _stop(learner)
                raise _died("launcher", launcher.exit_code, request.run_dir)
        code = _end(learner, launcher, signals, others)
        if code not in EXPLAINED:
            raise _died("learner", code, request.run_dir)
    summary = _summary(request.run_dir)
    # A learner that was refused the folder leaves the summary of the run that the folder holds.
    return code, None if summary == earlier else summary


class _Lines:
    """What the launcher and its actors write: held back until the learner answers, and lost if it refuses the run.

    So the learner's reason is the last line on the screen.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._held: list[str] | None = []
        """None: lines go through."""
        self._muted = False

    def say(self, line: str) -> None:
        """On any thread."""
        with self._lock:
            if self._held is not None:
                self._held.append(line)
            elif not self._muted:
                self._say(line)

    def release(self) -> None:
        with self._lock:
            for line in self._held or ():
                self._say(line)
            self._held = None

    def mute(self) -> None:
        with self._lock:
            self._held, self._muted = None, True


def _end(learner: Child, launcher: Child, signals: Signals, others: _Lines) -> int:
    """Ends whoever still runs; returns the exit code of the training."""
    if learner.exit_code is None:
        others.release()
        _stop(launcher, learner)
        return EXIT_TRY_LATER if learner.exit_code == EXIT_TRY_LATER else signals.exit_code
    if learner.exit_code == EXIT_DONE:
        others.release()
    else:
        others.mute()
        launcher.terminate()  # it would wait for a learner that comes back
    launcher.wait(STOP_SECONDS)
    return learner.exit_code


def _start_learner(start: Start, request: TrainRequest, config: Path) -> tuple[Child, Address]:
    """It inherits its listening ports, so that nobody takes them on the way; on Windows it must bind them itself."""
    usual = Address("127.0.0.1", DEFAULT_PORT)
    try:
        control, weights = sockets.reserve_pair(usual)
    except UnavailableError:
        control, weights = sockets.reserve_pair(usual.with_port(0))
    address = usual.with_port(control.getsockname()[1])
    words = ["learner", "--config", str(config), "--bind", str(address), "--run-dir", str(request.run_dir)]
    words += ["--resume"] if request.resume else []
    with closing(control), closing(weights):
        if sys.platform != "win32":
            inherited = (control.fileno(), weights.fileno())
            return start(*words, "--listeners", ",".join(map(str, inherited)), keep_open=inherited), address
    return start(*words), address


def _start_launcher(start: Start, request: TrainRequest, address: Address) -> Child:
    settings = request.settings
    prestart = min(settings.scaling.minimum, request.slots)
    words = ["launcher", str(address), "--slots", str(request.slots), "--prestart", str(prestart), "--name", "here"]
    for module in sorted({module_of(settings.environment.id), module_of(settings.network.kind)} - {""}):
        words += ["--allow-module", module]
    return start(*words)


def _check(status: RunStatus, *children: Child) -> None:
    """End the run if it cannot go on: the only launcher gave up, and no actor is left."""
    for launcher in status.launchers:
        if launcher.gave_up and not status.actors_now:
            _stop(*children)
            for_good = launcher.exit_code in (EXIT_USAGE, EXIT_CONFIGURATION)
            kind = ConfigurationError if for_good else UnavailableError
            raise kind(f"no actor can be started: {launcher.why}")


def _stop(*children: Child) -> None:
    """Tell all, then wait for all; a child that does not end in time is killed."""
    for child in children:
        child.terminate()
    until = time.monotonic() + STOP_SECONDS
    for child in children:
        child.wait(until - time.monotonic())


def _died(daemon: str, code: int, run_dir: Path) -> UnavailableError:
    _, kept = _kept(RunFolder(run_dir))
    return UnavailableError(f"the {daemon} ended with exit code {code}; go on with --resume and this --run-dir: {kept}")


def _summary(run_dir: Path) -> dict[str, Any] | None:
    try:
        summary: dict[str, Any] = msgspec.json.decode(RunFolder(run_dir).summary_file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return summary


def _kept(folder: RunFolder) -> tuple[bool, str]:
    """Whether there is a checkpoint on the disk, and which, for a person."""
    try:
        versions = [paths.order[0] for paths in folder.all_checkpoints()]
    except UnavailableError as error:
        return False, str(error)
    if not versions:
        return False, "there is no checkpoint"
    return True, f"the newest checkpoint is of version {versions[-1]:,}"


def _command(*named: str) -> str:
    """`a3cd` as it is to be typed again where a `module:Name` was found by PYTHONPATH."""
    path = os.environ.get("PYTHONPATH", "")
    return f"PYTHONPATH={shlex.quote(path)} a3cd" if path and any(map(module_of, named)) else "a3cd"


def _text(summary: dict[str, Any]) -> str:
    mean = "no episode finished" if summary["mean_return"] is None else f"mean return {summary['mean_return']:.1f}"
    run = shlex.quote(summary["run_dir"])
    a3cd = _command(summary["env"], summary["network"])
    playable, kept = _kept(RunFolder(Path(summary["run_dir"])))
    lines = [
        f"{summary['env']}: {mean} after {summary['frames']:,} frames, {summary['episodes']:,} episodes and "
        f"{summary['seconds']:.1f} s ({summary['state']})",
        f"  saved     {kept}",
        f"  curve     {summary['run_dir']}/curve.png",
    ]
    if playable:
        lines += [f"  evaluate  {a3cd} evaluate {run}", f"  record    {a3cd} record {run} --out agent.gif"]
    if summary["state"] == "stopped":  # at its limit or goal it would end at once
        lines.append(f"  go on     {a3cd} train {summary['env']} --resume --run-dir {run}")
    return "\n".join(lines)
