"""One training of a trial: a process of `a3cd train`, or of `a3cd simulate`, in a run folder of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from common.errors import UnavailableError
from common.host.atomic_file import replace_file
from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.settings.toml import dump
from deploy.children import Child, Children, a3cd
from deploy.cli.tune.plan import Plan
from learner.record.metrics_file import rows

END_SECONDS = 10.0
"""Time for a training to end by itself, which takes five seconds at most; then it is killed."""


class Training(Protocol):
    """What a trial needs of a training."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""

    @property
    def last_line(self) -> str:
        """The last line that it wrote: why it failed, if it has."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows of its metrics so far."""

    def ask_to_end(self) -> None: ...

    def end(self) -> None:
        """Ends it; returns when it has ended."""


Start = Callable[[Settings, Path], Training]
"""Starts a training with these settings in this run folder."""


class ChildTraining:
    def __init__(self, child: Child, run_dir: Path) -> None:
        self._child = child
        self._folder = RunFolder(run_dir)

    @property
    def exit_code(self) -> int | None:
        return self._child.exit_code

    @property
    def last_line(self) -> str:
        lines = [line for line in self._child.last_lines if line.strip()]
        said = lines[-1].strip() if lines else "it said nothing"
        return said.partition(" error: ")[2] or said  # without time and name, which stand before an error

    def rows(self) -> list[dict[str, Any]]:
        return list(rows(self._folder.metrics_file))

    def ask_to_end(self) -> None:
        self._child.terminate()

    def end(self) -> None:
        self.ask_to_end()
        self._child.wait(END_SECONDS)


def starter(plan: Plan, children: Children) -> Start:
    """Starts trainings that end with `children`. It raises UnavailableError where nothing can be written or started."""

    def start(settings: Settings, run_dir: Path) -> Training:
        config = run_dir.with_name(f"{run_dir.name}.toml")
        try:
            config.parent.mkdir(parents=True, exist_ok=True)
            replace_file(config, dump(settings).encode())
            return ChildTraining(children.start(command(plan, config, run_dir), _nobody), run_dir)
        except OSError as error:
            raise UnavailableError(f"{config}: no training can be started: {error.strerror}") from error

    return start


def command(plan: Plan, config: Path, run_dir: Path) -> list[str]:
    what = ("simulate", str(config)) if plan.simulate else ("train", plan.env, "--config", str(config), "--no-curve")
    return a3cd(*what, "--run-dir", str(run_dir), "--json", "--lifeline")


def _nobody(line: str) -> None:
    """Ignores a line of a training; the child keeps its last lines."""
