"""`a3cd tune`: search for settings by trials, each of which is a real training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from common.errors import EXIT_DONE, UnavailableError
from deploy.arguments import RangeType, env_argument, finish, json_option, set_option

if TYPE_CHECKING:
    from deploy.cli.tune.plan import Plan
    from deploy.cli.tune.study import Study

LOOK_SECONDS = 0.1
WIDTH = 140
"""Width of the table in a file or a pipe."""


@click.command()
@env_argument()
@click.option("--trials", type=click.IntRange(1), default=40, show_default=True, help="How many, with those there are.")
@click.option("--frames", type=click.IntRange(1), help="A training ends after N steps of the agents.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="A training ends after this time.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Trainings of a trial.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Trials at a time.")
@click.option("--algorithm", help="As in `a3cd train`.")
@click.option("--network", help="As in `a3cd train`.")
@click.option("--actors", type=RangeType(), help="Of each training, as in `a3cd train`.")
@set_option
@click.option(
    "--search",
    "searched",
    multiple=True,
    metavar="KEY=LOW..HIGH[,log]|A,B,...",
    help="Search this setting, here or among these; may be repeated. --set KEY=VALUE takes one out.",
)
@click.option(
    "--score",
    type=click.Choice(["training", "evaluation"]),
    help="Which returns make the curve.  [default: evaluation for --seconds 120 and more without --frames]",
)
@click.option("--simulate", is_flag=True, help="Trainings on the virtual clock of `a3cd simulate`.")
@click.option(
    "--study",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the trials are kept.  [default: runs/tune/ENV-ALGORITHM.db]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the search.")
@click.option("--show", is_flag=True, help="Only show what the study has found so far, also while it goes on.")
@json_option
def tune(env: str, *, file: Path | None, show: bool, as_json: bool, trials: int, jobs: int, **given: Any) -> None:
    """Search for the settings with which ENV is learnt best: each trial is a training as by `a3cd train`.

    The score of a training is the mean of its learning curve, from its beginning to its end: of the returns by which
    `a3cd evaluator` judges it, on episodes that no actor plays, with `--seconds 120` or more and no `--frames`; else of
    the training returns, since a shorter training has hardly any evaluations. It is the same for all trials of a
    study. The score of a trial is the mean of the worse half of its trainings; their seeds are 1000 and up: report
    what is found on others.

    The same command goes on where it was interrupted. The best settings are written to best.toml in the folder of the
    trials, for `a3cd train ENV --config FILE`.
    """
    from common.run import presets
    from deploy.cli.tune.report import default_file
    from deploy.cli.tune.study import Study

    where = file or default_file(env, presets.for_environment(env, given["algorithm"]).algorithm.kind)
    if show:
        with Study(where) as study:
            _tell(study, as_json)
        finish(EXIT_DONE)
    seed = given.pop("seed")
    finish(run(plan_of(env, **given), where, trials=trials, jobs=jobs, seed=seed, as_json=as_json))


def plan_of(
    env: str, *, assignments: tuple[str, ...], searched: tuple[str, ...], frames: int | None, seconds: float | None,
    seeds: int, score: Any, simulate: bool, **options: Any,
) -> Plan:  # fmt: skip
    """The plan that the command line asks for; raises ConfigurationError."""
    from deploy.cli.request import request
    from deploy.cli.tune.plan import Plan
    from deploy.cli.tune.space import refuse_own, space

    for assignment in assignments:
        refuse_own(assignment.partition("=")[0].strip(), f"--set {assignment}")
    unset: dict[str, Any] = dict.fromkeys(("seed", "frames", "episodes", "seconds", "until_return"))
    settings = request(env, assignments=assignments, **unset, **options).settings
    axes = space(settings, searched, assignments)
    return Plan.of(env, settings, axes, frames=frames, seconds=seconds, seeds=seeds, score=score, simulate=simulate)


def run(plan: Plan, file: Path, *, trials: int, jobs: int, seed: int, as_json: bool) -> int:
    """Search until there are `trials` trials, print what was found on stdout, and return the exit code."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from common.host.service.signals import Signals
    from deploy.children import Children
    from deploy.cli.tune.study import folder_of, load, locked, open_study
    from deploy.cli.tune.training import starter
    from deploy.cli.tune.trials import Ended, Search, search
    from deploy.cli.view.quiet import quiet, tell

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    load()  # raises if Optuna is missing, before anything is made on the disk
    with locked(file), open_study(plan, file, seed=seed) as study:
        study.try_interrupted_again()
        with Children() as children, Signals() as signals:
            tasks = Search(study, folder_of(file), starter(plan, children), trials=trials, jobs=jobs)
            with Progress(*columns, console=Console(file=quiet(sys.stderr))) as bar:
                task = bar.add_task("trials", total=trials, completed=study.done)

                def hear(ended: Ended) -> None:
                    line = f"trial {ended.number}: {ended.outcome}"
                    bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
                    bar.advance(task)

                over = search(tasks, hear, lambda: signals.requested is not None, LOOK_SECONDS)
        _tell(study, as_json)
        if not over:
            tell("interrupted: the same command goes on with the trials that ran")
        return EXIT_DONE if over else signals.exit_code


def _tell(study: Study, as_json: bool) -> None:
    """Raises UnavailableError, after all that was found has been told, if the best settings could not be written."""
    from rich.console import Console

    from deploy.cli.tune import report

    found = report.found(study)
    if as_json:
        click.echo(report.as_json(found))
    else:
        if found.trials and found.trials[0].score is not None:
            Console(width=None if sys.stdout.isatty() else WIDTH).print(report.table(found))
        for line in report.text(found):
            click.echo(line)
    if found.trouble:
        raise UnavailableError(found.trouble)
