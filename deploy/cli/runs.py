"""`a3cd runs`: many runs listed, compared over seeds, and drawn."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from common.errors import ConfigurationError
from common.run.runs import RUNS
from deploy.cli.view.formatting import NOTHING, duration, number

if TYPE_CHECKING:
    from deploy.runs.groups import Group

_NUMBERS = ("seed", "frames", "time", "return", "best", "evaluation", "seeds", "interval")
"""Columns that are aligned to the right."""


@click.command()
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--plot", "out", type=click.Path(path_type=Path, dir_okay=False), help="Draw them: .png, .svg or .pdf.")
@click.option(
    "--over",
    type=click.Choice(["frames", "seconds"]),
    default="frames",
    show_default=True,
    help="The x axis of --plot.",
)
@click.option(
    "--score",
    type=click.Choice(["training", "evaluation"]),
    default="training",
    show_default=True,
    help="The returns of --plot.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print one table with a row for each run instead.")
@click.option("--csv-curves", is_flag=True, help="Print one table with a row for each row of their metrics instead.")
def runs(folders: tuple[Path, ...], out: Path | None, over: Any, score: Any, as_csv: bool, csv_curves: bool) -> None:
    """List the runs in DIR (default: runs), compare those that differ in their seed alone, and draw them.

    Frames are steps of the agents. `return` is that of training at the end, `best` its highest mean; `evaluation` is
    that of the best weights by an evaluator. Intervals are 95 % ones of the mean, by Student's t, over seeds.
    """
    _check(out, as_csv, csv_curves)
    # Imported only now: wrong options should not wait for what the pictures load.
    from deploy.runs import drawing, tidy
    from deploy.runs.groups import groups
    from deploy.runs.table import read_table

    if out is not None:
        drawing.check_name(out)
    wanted = folders or (RUNS,)
    table = read_table(wanted)
    for why in table.broken:
        click.echo(f"left out: {why}", err=True)
    if not table.runs:
        named = " ".join(map(str, wanted))
        raise ConfigurationError(f"{named}: no run {'that can be read ' if table.broken else ''}in it")
    found = groups(table.runs)
    if as_csv or csv_curves:
        _print_csv(tidy.run_rows(found) if as_csv else tidy.curve_rows(found))
    else:
        show(found)
    if out is not None:
        drawing.draw(found, out, over, score)
        click.echo(str(out), err=as_csv or csv_curves)


def _check(out: Path | None, as_csv: bool, csv_curves: bool) -> None:
    """Refuse options that would change nothing; raises UsageError."""
    if as_csv and csv_curves:
        raise click.UsageError("--csv and --csv-curves are two tables: give one of them")
    for option in ("over", "score"):
        given = click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
        if given and out is None:
            raise click.UsageError(f"--{option} is for the picture of --plot: give --plot FILE as well")


def show(found: Sequence[Group]) -> None:
    """Print a row for each run, and one for each group of several."""
    _print([_run(run.row) for group in found for run in group.runs])
    several = [_group(group.env, group.name, [run.row for run in group.runs]) for group in found if group.runs[1:]]
    if several:
        click.echo()
        _print(several)


def _run(row: Any) -> dict[str, str]:
    return {
        "run": row.run,
        "environment": row.env,
        "algorithm": row.algorithm,
        "seed": str(row.seed),
        "state": row.state,
        "frames": NOTHING if row.frames is None else f"{row.frames:,}",
        "time": duration(row.seconds),
        "return": number(row.mean_return),
        "best": number(row.best_return),
        "evaluation": number(row.best_evaluation),
    }


def _group(env: str, name: str, rows: Sequence[Any]) -> dict[str, str]:
    return {
        "environment": env,
        "group": name,
        "seeds": str(len(rows)),
        "frames": _mean([row.frames for row in rows], interval=False),
        "return": _mean([row.mean_return for row in rows]),
        "best": _mean([row.best_return for row in rows]),
        "evaluation": _mean([row.best_evaluation for row in rows]),
    }


def _mean(values: Iterable[float | None], *, interval: bool = True) -> str:
    """The mean of the values that are known, with its interval."""
    from common.rl.episode_statistics import return_statistics

    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    found = return_statistics(known)
    if not interval or found.low is None or found.high is None:
        return number(found.mean)
    return f"{number(found.mean)} ({number(found.low)} to {number(found.high)})"


def _print(rows: Sequence[Mapping[str, str]]) -> None:
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for row in ({name: name for name in widths}, *rows):
        cells = (row[name].rjust(w) if name in _NUMBERS else row[name].ljust(w) for name, w in widths.items())
        click.echo("  ".join(cells).rstrip())


def _print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(row))
            writer.writeheader()
        writer.writerow(row)
