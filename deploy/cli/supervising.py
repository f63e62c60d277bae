"""A training on this machine: learner, launcher and evaluator as processes, as a person would start them by hand."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

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
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.run.folder import RunFolder
from common.run.status import RunStatus
from common.settings.toml import dump
from common.wire import sockets
from deploy.children import Child, Children, a3cd
from deploy.cli.request import USUAL, TrainRequest
from deploy.cli.view.result import kept

STOP_SECONDS = 4.5
"""Time for learner and launcher to end by themselves, within the five seconds that the operator is promised."""
LOOK_SECONDS = 0.1
END_SECONDS = 0.01
"""The same as LOOK_SECONDS, once the learner has said that it ends."""
EXPLAINED = frozenset({EXIT_DONE, EXIT_USAGE, EXIT_TRY_LATER, EXIT_CONFIGURATION, EXIT_SIGINT, EXIT_SIGTERM})
"""Exit codes that a learner has explained itself."""
Start = Callable[..., Child]
"""Starts `a3cd` with the arguments given; the child inherits the descriptors `keep_open`."""


def supervise(request: TrainRequest) -> tuple[int, dict[str, Any]]:
    """Run until the learner has ended; progress goes to stderr, and is lost where that takes nothing.

    Returns the learner's exit code, or that of a signal to this process, and the run's summary; empty: it wrote none.
    Raises UnavailableError when learner or launcher die, or no actor can be started now; ConfigurationError when none
    can ever be started; and as `preflight.check`, before which nothing is done to the folder.
    """
    earlier = summary_of(request.run_dir)
    with ExitStack() as stack:
        children = stack.enter_context(Children())
        learners, others = _Lines(), _Lines()

        def start(say: Callable[[str], None], *words: str, keep_open: Sequence[int] = ()) -> Child:
            return children.start(a3cd(*words, "--lifeline"), say, stdout=False, keep_open=keep_open)

        learner, address = _start_learner(partial(start, learners.say), request, stack)
        signals = stack.enter_context(Signals())
        launcher = start(others.say, *request.launcher(address))
        stack.enter_context(_saved(launcher, learner))
        # Imported here, not at the top, so that this process loads it while the two children load their own libraries.
        from deploy.cli.evaluating import Evaluating
        from deploy.cli.observer import Observer
        from deploy.cli.tracking import Tracking
        from deploy.cli.view.progress import open_view
        from deploy.cli.view.quiet import quiet

        view = stack.enter_context(open_view(quiet(sys.stderr), warnings=False))  # the learner's own lines have them
        learners.release(view.say)
        observer = stack.enter_context(Observer(LearnerEndpoint(address)))
        begun = time.monotonic()
        evaluating = Evaluating(partial(start, others.say), request.settings, address, request.modules, begun)
        tracking = Tracking(partial(start, others.say), request.run_dir, request.trackers)
        while learner.exit_code is None and signals.requested is None:
            status = observer.next(LOOK_SECONDS if observer.ended is None else END_SECONDS)
            if status is not None:
                others.release(view.say)
                view.show(status)
                tracking.begin()
                _check(status, launcher, learner)
            if observer.ended is None:
                evaluating.look(time.monotonic())
            if launcher.exit_code:
                others.release(view.say)
                _stop(learner)
                raise _died("launcher", launcher.exit_code, request.run_dir)
        if learner.exit_code in (None, EXIT_DONE):
            others.release(view.say)
        else:
            others.mute()
        code = _end(learner, launcher, signals)
        tracking.end(view.say, stopped=signals.requested is not None)
        if code not in EXPLAINED:
            raise _died("learner", code, request.run_dir)
    summary = summary_of(request.run_dir)
    if summary == earlier:  # a learner that was refused the folder leaves the summary of the run in it
        return code, {}
    if not request.no_curve:
        _draw(request.run_dir)
    return code, summary


class _Lines:
    """What children write: held back until `release` says where it goes, and dropped after `mute`.

    Lines of the launcher and its actors are held back until the learner answers. If it refuses the run instead, its
    reason is the last line on the screen.
    """

    def __init__(self) -> None:
        self._say: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        self._held: list[str] | None = []
        """None: nothing is held back."""

    def say(self, line: str) -> None:
        """May be called on any thread."""
        with self._lock:
            if self._held is not None:
                self._held.append(line)
            elif self._say is not None:
                self._say(line)

    def release(self, say: Callable[[str], None]) -> None:
        with self._lock:
            self._say = say
            for line in self._held or ():
                say(line)
            self._held = None

    def mute(self) -> None:
        with self._lock:
            self._held = self._say = None


def _end(learner: Child, launcher: Child, signals: Signals) -> int:
    """Ends the children that still run; returns the exit code of the training."""
    if learner.exit_code is None:
        _stop(launcher, learner)
        saved = learner.exit_code in (EXIT_DONE, EXIT_SIGINT, EXIT_SIGTERM)  # not if it was killed in the middle of it
        return signals.exit_code if saved else learner.exit_code or EXIT_TRY_LATER
    if learner.exit_code != EXIT_DONE:
        launcher.terminate()  # else it would wait for the learner to come back
    launcher.wait(STOP_SECONDS)
    return learner.exit_code


def _start_learner(start: Start, request: TrainRequest, stack: ExitStack) -> tuple[Child, Address]:
    """Start the learner: it loads its libraries, and is sent the settings once they have passed `preflight`.

    It inherits its listening ports, so that nobody takes them meanwhile. On Windows, where it cannot inherit them, it
    is started after `preflight`, and binds them itself. Returns it and its address. Raises as `preflight.check`.
    """
    try:
        control, weights = sockets.reserve_pair(USUAL)
    except UnavailableError:
        control, weights = sockets.reserve_pair(USUAL.with_port(0))
    address = USUAL.with_port(control.getsockname()[1])
    words = request.learner(address)
    with closing(control), closing(weights):
        if sys.platform != "win32":
            return _start_ahead(start, words, (control.fileno(), weights.fileno()), request), address
    _check_settings(request)
    config = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="a3cd-")), "run.toml")
    config.write_text(dump(request.settings), encoding="utf-8")
    return start(*words, "--config", str(config)), address


def _start_ahead(start: Start, words: Sequence[str], listeners: tuple[int, int], request: TrainRequest) -> Child:
    source, end = os.pipe()
    with os.fdopen(end, "wb", buffering=0) as settings:
        with os.fdopen(source, "rb"):
            child = start(
                *words,
                *("--listeners", ",".join(map(str, listeners)), "--settings", str(source)),
                keep_open=(*listeners, source),
            )
        _check_settings(request)
        with suppress(BrokenPipeError):  # it has ended; its exit code says why
            settings.write(dump(request.settings).encode())
    return child


def _check_settings(request: TrainRequest) -> None:
    from deploy.cli import preflight  # loads gymnasium, while the learner loads torch

    preflight.check(request.settings, RunFolder(request.run_dir), request.resume)


def _check(status: RunStatus, *children: Child) -> None:
    """End the run if it cannot go on: the only launcher gave up, and no actor is left."""
    for launcher in status.launchers:
        if launcher.gave_up and not status.actors_now:
            _stop(*children)
            for_good = launcher.exit_code in (EXIT_USAGE, EXIT_CONFIGURATION)
            kind = ConfigurationError if for_good else UnavailableError
            raise kind(f"no actor can be started: {launcher.why}")


def _draw(run_dir: Path) -> None:
    """Let a process that nobody waits for draw the learning curve: loading matplotlib takes a second."""
    none = subprocess.DEVNULL
    with suppress(OSError):
        command = a3cd("curve", str(run_dir))
        drawing = subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)
        threading.Thread(target=drawing.wait, daemon=True).start()  # else a zombie while this process lives on


def _stop(*children: Child) -> None:
    """Tell all, then wait for all; a child that does not end in time is killed."""
    for child in children:
        child.terminate()
    until = time.monotonic() + STOP_SECONDS
    for child in children:
        child.wait(until - time.monotonic())


@contextmanager
def _saved(*children: Child) -> Iterator[None]:
    """If anything fails inside, the children end as after a signal, the learner with a checkpoint."""
    try:
        yield
    except BaseException:
        _stop(*children)
        raise


def _died(daemon: str, code: int, run_dir: Path) -> UnavailableError:
    go_on = f"go on with --resume and this --run-dir: {kept(RunFolder(run_dir))[1]}"
    return UnavailableError(f"the {daemon} ended with exit code {code}; {go_on}")


def summary_of(run_dir: Path) -> dict[str, Any]:
    """The summary of the run in the folder; empty if none can be read."""
    with suppress(A3cdError):
        return RunFolder(run_dir).summary()
    return {}
