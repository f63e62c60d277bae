"""Training on this machine: the learner and the launcher as processes, exactly those a person would start by hand."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import psutil

from common.errors import (
    EXIT_CONFIGURATION,
    EXIT_DONE,
    EXIT_SIGINT,
    EXIT_SIGTERM,
    EXIT_TRY_LATER,
    EXIT_USAGE,
    A3cdError,
    ConfigurationError,
    UnavailableError,
)
from common.host.addresses import DEFAULT_PORT, Address
from common.host.modules import module_of
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.run import presets
from common.run.folder import RunFolder, default_path
from common.run.status import RunStatus
from common.settings.sections import Settings
from common.settings.toml import dump, override
from common.wire import sockets
from deploy.children import Child, Children, a3cd
from deploy.cli.observer import Observer
from deploy.cli.view.progress import View, open_view

STOP_SECONDS = 4.5
"""For learner and launcher to end by themselves, within the five that the operator is promised."""
LOOK_SECONDS = 0.1
ENDINGS = frozenset({EXIT_DONE, EXIT_USAGE, EXIT_TRY_LATER, EXIT_CONFIGURATION, EXIT_SIGINT, EXIT_SIGTERM})
"""Exit codes with which a learner has said itself why it ends."""


@dataclass(frozen=True)
class Plan:
    """What `train` is to do."""

    settings: Settings
    run_dir: Path
    resume: bool

    @property
    def slots(self) -> int:
        """Most actors there will be."""
        scaling = self.settings.scaling
        return scaling.minimum if scaling.policy == "fixed" else scaling.maximum


def plan(
    env: str,
    *,
    actors: tuple[int, int] | None = None,
    assignments: tuple[str, ...] = (),
    run_dir: Path | None = None,
    resume: bool = False,
    **options: Any,
) -> Plan:
    """From the command line; `options` are algorithm, network, seed, frames, episodes, seconds, until_return.

    Raises ConfigurationError for settings that cannot be.
    """
    if resume and run_dir is None:
        raise ConfigurationError("--resume needs --run-dir: which run is to go on?")
    settings = presets.for_environment(env, options["algorithm"])
    if resume and run_dir is not None:
        asked, settings = settings.environment.id, RunFolder(run_dir).settings()
        if settings.environment.id != asked:
            raise ConfigurationError(f"{run_dir}: the run is of {settings.environment.id}, not of {asked}")
    written = {
        "algorithm.kind": options["algorithm"],
        "network.kind": options["network"],
        "seed": options["seed"],
        **{f"limits.{name}": options[name] for name in ("frames", "episodes", "seconds", "until_return")},
    }
    if actors is not None:
        policy = settings.scaling.policy
        if actors[0] == actors[1]:
            policy = "fixed"
        elif policy == "fixed":
            policy = "episode-duration"
        written |= {"scaling.policy": policy, "scaling.minimum": actors[0], "scaling.maximum": actors[1]}
    named = [f"{key}={json.dumps(value)}" for key, value in written.items() if value is not None]
    return Plan(override(settings, [*named, *assignments]), run_dir or default_path(env), resume)


def train(plan: Plan, *, as_json: bool) -> int:
    """Runs until the learner has ended; prints the result on stdout and returns the exit code.

    Raises UnavailableError when learner or launcher die, or no actor can be started; ConfigurationError when none ever
    could be.
    """
    earlier = _summary(plan)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        view = stack.enter_context(open_view())
        children = stack.enter_context(Children())
        code = _Training(plan, partial(_start, children, view), view, signals, stack).run()
    summary = _summary(plan)
    if summary is not None and summary != earlier:  # a learner that was refused the folder leaves another run's there
        summary |= {"seconds": time.time() - psutil.Process().create_time(), "exit_code": code}
        click.echo(json.dumps(summary) if as_json else _text(summary))
    return code


class _Training:
    def __init__(self, plan: Plan, start: Callable[..., Child], view: View, signals: Signals, stack: ExitStack) -> None:
        self._view, self._signals = view, signals
        self._folder = tempfile.TemporaryDirectory(prefix="a3cd-")
        config = Path(stack.enter_context(self._folder), "run.toml")
        config.write_text(dump(plan.settings), encoding="utf-8")
        self._learner, address = _start_learner(start, plan, config)
        named = (plan.settings.environment.id, plan.settings.network.kind)
        modules = sorted({module_of(name) for name in named} - {""})
        warm = min(plan.settings.scaling.minimum, plan.slots)
        self._launcher = start(
            *("launcher", str(address), "--slots", str(max(1, plan.slots)), "--warm", str(warm), "--name", "here"),
            *(word for module in modules for word in ("--allow-module", module)),
        )
        self._observer = stack.enter_context(Observer(LearnerEndpoint(address)))

    def run(self) -> int:
        while self._learner.exit_code is None:
            if self._signals.requested is not None:
                self._stop(self._launcher, self._learner)
                return self._signals.exit_code
            status = self._observer.next(LOOK_SECONDS)
            if status is not None:
                self._folder.cleanup()  # it has been read; a training that is killed leaves nothing
                self._view.show(status)
                failure = _hopeless(status)
                if failure is not None:
                    self._stop(self._launcher, self._learner)
                    raise failure
            if self._launcher.exit_code:
                self._stop(self._learner)
                raise _died("launcher", self._launcher.exit_code)
        code = self._learner.exit_code
        if code != 0:
            self._launcher.terminate()
        self._launcher.wait(STOP_SECONDS)
        if code not in ENDINGS:
            raise _died("learner", code)
        return code

    def _stop(self, *children: Child) -> None:
        """Tells all, then waits for all; what does not end is killed."""
        for child in children:
            child.terminate()
        until = time.monotonic() + STOP_SECONDS
        for child in children:
            child.wait(until - time.monotonic())


def _hopeless(status: RunStatus) -> A3cdError | None:
    """Why the run cannot go on: the only launcher gave up, and no actor is left."""
    fleet = next(iter(status.fleets), None)
    if fleet is None or not fleet.gave_up or status.actors:
        return None
    kind = ConfigurationError if fleet.exit_code in (EXIT_USAGE, EXIT_CONFIGURATION) else UnavailableError
    return kind(f"no actor can be started: {fleet.why}")


def _died(daemon: str, code: int) -> A3cdError:
    return UnavailableError(
        f"the {daemon} ended with exit code {code}; go on from the last checkpoint with --resume and this --run-dir"
    )


def _start(children: Children, view: View, *arguments: str, keep_open: Sequence[int] = ()) -> Child:
    """Starts a daemon, which inherits the descriptors `keep_open` and whose log is shown; it ends with this process."""
    return children.start(a3cd(*arguments, "--lifeline"), view.say, stdout=False, keep_open=keep_open)


def _start_learner(start: Callable[..., Child], plan: Plan, config: Path) -> tuple[Child, Address]:
    """It inherits its ports, so that nobody takes them on the way (on Windows it must take them itself)."""
    listeners = _listeners()
    address = Address("127.0.0.1", listeners[0].getsockname()[1])
    words = ["learner", "--config", str(config), "--bind", str(address), "--run-dir", str(plan.run_dir)]
    words += ["--resume"] if plan.resume else []
    with ExitStack() as closing:
        for listener in listeners:
            closing.callback(listener.close)
        if sys.platform == "win32":
            closing.close()
            return start(*words), address
        inherited = [listener.fileno() for listener in listeners]
        words += ["--listeners", ",".join(map(str, inherited))]
        return start(*words, keep_open=inherited), address


def _listeners() -> tuple[socket.socket, socket.socket]:
    """The usual ports where they are free, else any two."""
    usual = Address("127.0.0.1", DEFAULT_PORT)
    try:
        return sockets.reserve_pair(usual)
    except UnavailableError:
        return sockets.reserve_pair(usual.with_port(0))


def _summary(plan: Plan) -> dict[str, Any] | None:
    try:
        summary: dict[str, Any] = msgspec.json.decode(RunFolder(plan.run_dir).summary_file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return summary


def _text(summary: dict[str, Any]) -> str:
    mean = "no episode finished" if summary["mean_return"] is None else f"mean return {summary['mean_return']:.1f}"
    run = summary["run_dir"]
    lines = [
        f"{summary['env']}: {mean} after {summary['frames']:,} frames, {summary['episodes']:,} episodes and "
        f"{summary['seconds']:.1f} s ({summary['state']})",
        f"  curve     {run}/curve.png",
        f"  evaluate  a3cd evaluate {run}",
        f"  record    a3cd record {run} --out agent.gif",
    ]
    if summary["state"] == "stopped":  # at its limit or goal it would end at once
        lines.append(f"  go on     a3cd train {summary['env']} --resume --run-dir {run}")
    return "\n".join(lines)
