"""`a3cd train --seeds`: the same training once for each seed, one after the other, and one table of them all.

Each is an `a3cd train` of its own with the words of this command line, in the folder seed-N below --run-dir.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from common.errors import EXIT_DONE, HOPELESS, ConfigurationError
from common.host.service.signals import Signals
from common.run.folder import RunFolder
from common.run.runs import LAST, find_run
from deploy.children import Children, a3cd
from deploy.cli import preflight
from deploy.cli.request import request
from deploy.cli.sweep import seeds_of
from deploy.cli.view.quiet import tell
from learner.record.run_lock import require_empty

END_SECONDS = 10.0
"""Time for a training to end by itself, which takes five seconds at most; then it is killed."""
LOOK_SECONDS = 0.1
_PREFIX = "seed-"
"""Of the name of a training's folder; its seed follows."""
_OURS = {"--seeds": True, "--run-dir": True, "--json": False, "--resume": False, "--dry-run": False}
"""Options that are not passed on as they are, and whether they have a value."""


@dataclass
class One:
    """The training with one of the seeds."""

    seed: int
    folder: Path
    words: list[str]
    """The arguments of its `a3cd`."""
    exit_code: int | None = None
    """None: it has not ended."""


def plan(
    seeds: str,
    words: Sequence[str],
    *,
    env: str | None,
    config: Path | None,
    run_dir: Path | None,
    resume: bool,
    seed: int | None,
    assignments: tuple[str, ...],
    **given: Any,
) -> list[One]:
    """The trainings in their order; `resume`: those that have begun go on, the others begin.

    words: the command line after `train`; the other arguments are its values, as `request` takes them. Raises
    ConfigurationError if a training would be refused, as far as that can be seen without starting it.
    """
    if seed is not None or any(one.partition("=")[0].strip() == "seed" for one in assignments):
        raise ConfigurationError(f"--seeds {seeds} goes without {'--set seed=...' if seed is None else '--seed'}")
    given |= {"env": env, "assignments": assignments}
    numbers = seeds_of(seeds, 0)
    folder = _begun(run_dir) if resume else request(config=config, run_dir=run_dir, seed=None, **given).run_dir
    every: list[One] = []
    for number in numbers:
        own = folder / f"{_PREFIX}{number}"
        goes_on = resume and RunFolder(own).holds_run()
        if not goes_on:
            with suppress(OSError):  # its learner says what is wrong with the disk
                require_empty(RunFolder(own))
            if env is None and config is None:
                raise ConfigurationError(f"{own}: this run has not begun; name the environment, as at first")
        file = None if goes_on else config
        asked = request(config=file, run_dir=own, resume=goes_on, seed=number, **given)
        if not every:
            preflight.check(asked.settings, RunFolder(own), goes_on)
        handed = without(words, _OURS | ({"--config": True} if goes_on else {}))
        mine = ["--seed", str(number), "--run-dir", str(own), *(["--resume"] if goes_on else [])]
        every.append(One(number, own, ["train", *handed, *mine]))
    return every


def _begun(run_dir: Path | None) -> Path:
    """The folder of the runs that are to go on."""
    if run_dir is None:
        raise ConfigurationError("--resume needs --run-dir: the folder of the runs that are to go on")
    if run_dir == Path(LAST):
        newest = find_run(run_dir)
        if not newest.name.startswith(_PREFIX):
            raise ConfigurationError(
                f"{newest}: the newest run is not one of --seeds; name the folder of those to go on"
            )
        return newest.parent
    if not run_dir.is_dir():
        raise ConfigurationError(f"{run_dir}: there is no such folder")
    if RunFolder(run_dir).holds_run():
        raise ConfigurationError(f"{run_dir}: holds a run itself; --seeds is for a folder of runs, seed-0 and others")
    return run_dir


def without(words: Sequence[str], options: dict[str, bool]) -> list[str]:
    """The words of a command line without some `options`; for each of these, whether it has a value."""
    kept, left = [], iter(words)
    for word in left:
        name, written, _ = word.partition("=")
        if name not in options:
            kept.append(word)
        elif options[name] and not written:
            next(left, None)
    return kept


def train(every: Sequence[One], words: Sequence[str], *, as_json: bool) -> int:
    """Run all, print the results on stdout, and return the exit code: of a signal, else the first that is not 0.

    words: the command line after `train`. After a training whose exit code says that trying again cannot help, no other
    is started.
    """
    with Signals() as signals, Children() as children:
        for place, one in enumerate(every, 1):
            tell(f"seed {one.seed} ({place} of {len(every)}): {one.folder}")
            _run(one, children, signals)
            if signals.requested is not None or one.exit_code in HOPELESS:
                break
        show_results(every, words, as_json=as_json)
        return signals.exit_code or next((one.exit_code for one in every if one.exit_code), EXIT_DONE)


def _run(one: One, children: Children, signals: Signals) -> None:
    """Run one training until it has ended."""
    child = children.start(a3cd(*one.words, "--lifeline"), lambda line: tell(f"seed {one.seed}  {line}"), stdout=False)
    while child.exit_code is None:
        if signals.requested is not None:
            child.terminate()
            child.wait(END_SECONDS)
            break
        time.sleep(LOOK_SECONDS)
    one.exit_code = child.exit_code


def show_results(every: Sequence[One], words: Sequence[str], *, as_json: bool) -> None:
    """Print the results, and the command with which those go on that have not ended well."""
    from deploy.cli.runs import show
    from deploy.runs.groups import groups
    from deploy.runs.table import read_table

    table = read_table(one.folder for one in every if one.folder.is_dir())
    for why in table.broken:
        tell(f"left out: {why}")
    if as_json:
        rows = {run.row.run: msgspec.to_builtins(run.row) for run in table.runs}
        click.echo(json.dumps([_told(one) | {"run": rows.get(str(one.folder))} for one in every]))
        return
    if table.runs:
        show(groups(table.runs))
    unfinished = [one for one in every if one.exit_code != EXIT_DONE]
    for one in unfinished:
        how = "not begun" if one.exit_code is None else f"ended with exit code {one.exit_code}"
        click.echo(f"  seed {one.seed}: {how}")
    folder = every[0].folder.parent
    if unfinished and folder.is_dir():
        again = [*without(words, {"--run-dir": True, "--resume": False}), "--run-dir", str(folder)]
        click.echo(f"  go on     a3cd train {shlex.join(again)} --resume")


def _told(one: One) -> dict[str, Any]:
    return {"seed": one.seed, "run_dir": str(one.folder), "exit_code": one.exit_code}


def show_plan(every: Iterable[One], *, as_json: bool) -> None:
    """Print the commands."""
    if as_json:
        click.echo(json.dumps([_told(one) | {"command": ["a3cd", *one.words]} for one in every]))
        return
    click.echo("Would be started, one after the other:")
    for one in every:
        click.echo(f"  a3cd {shlex.join(one.words)}")
