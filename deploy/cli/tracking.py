"""The trackers of a training on this machine (`train --track`): a process for each, as `a3cd track` starts it."""

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from common.errors import EXIT_DONE
from deploy.children import Child

END_SECONDS = 15.0
"""Time for the trackers to send what is left, once the run is over."""
STOPPED_SECONDS = 2.0
"""The same after a signal."""
LOOK_SECONDS = 0.05


def words(run_dir: Path, kind: str) -> list[str]:
    """The arguments of `a3cd` for a tracker."""
    return ["track", str(run_dir), "--to", kind]


class Tracking:
    """Nothing depends on them: one that fails says so, and the run goes on."""

    def __init__(self, start: Callable[..., Child], run_dir: Path, kinds: Sequence[str]) -> None:
        """`start`: starts `a3cd` with the arguments given."""
        self._start, self._run_dir, self._kinds = start, run_dir, kinds
        self._children: dict[str, Child] = {}
        self._begun = False

    def begin(self) -> None:
        """Start the trackers, once the run has its folder; may be called any number of times."""
        self._begun = True
        for kind in self._kinds:
            if kind not in self._children:
                with suppress(OSError):  # such as too many processes: tried again at the next call
                    self._children[kind] = self._start(*words(self._run_dir, kind))

    def end(self, say: Callable[[str], None], *, stopped: bool) -> None:
        """Wait for a bounded time until they have sent everything; `say` is told how to send the rest."""
        until = time.monotonic() + (STOPPED_SECONDS if stopped else END_SECONDS)
        while time.monotonic() < until and any(child.exit_code is None for child in self._children.values()):
            time.sleep(LOOK_SECONDS)
        for kind in self._kinds if self._begun else ():
            child = self._children.get(kind)
            if child is not None and child.exit_code is None:
                child.terminate()
                child.wait(STOPPED_SECONDS)
            if child is None or child.exit_code != EXIT_DONE:
                more = f"; wandb sync {shlex.quote(str(self._run_dir))}/trackers/wandb/run-*" if kind == "wandb" else ""
                say(f"{kind} has not been told everything: a3cd {shlex.join(words(self._run_dir, kind))}{more}")
