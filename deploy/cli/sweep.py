"""Many simulations side by side, each a process of its own on a real core, and one table."""

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from common.errors import EXIT_DONE, HOPELESS, ConfigurationError, UnavailableError
from common.run.folder import RunFolder
from deploy.children import Child, Children, a3cd
from deploy.cli.view.formatting import number
from deploy.cli.view.quiet import quiet

LOOK_SECONDS = 0.05
MOST_SEEDS = 1000
COLUMNS = {
    "return": "mean_return",
    "best": "best_return",
    "episodes": "episodes",
    "frames": "frames",
    "seconds": "seconds",
    "frames/s": "frames_per_second",
    "lag": "lag_mean",
    "lag p95": "lag_p95",
    "busy": "learner_busy",
    "actors": "actors_peak",
}
"""Headings of the table, and the fields of a run's summary below them; shown are medians over the seeds."""
WORLDLY = ("costs.", "learner_mbit", "most_seconds")
"""Beginnings of the simulation's keys; all other keys are run settings."""


@dataclass(frozen=True)
class Case:
    """One of the simulations."""

    values: dict[str, str]
    seed: int
    folder: Path

    @property
    def words(self) -> list[str]:
        words = ["--seed", str(self.seed), "--run-dir", str(self.folder)]
        for key, value in self.values.items():
            if key == "actors":
                words += ["--actors", value]
            else:
                words += ["--world-set" if key.startswith(WORLDLY) else "--set", f"{key}={value}"]
        return words


def sweep(
    run: str,
    *,
    sweep: Sequence[str],
    seeds: str | None,
    jobs: int | None,
    run_dir: Path | None,
    as_json: bool,
    actors: tuple[int, int] | None,
    seed: int | None,
    assignments: Sequence[str],
    world: Path | None,
    worldly: Sequence[str],
    measure: bool,
    **limits: Any,
) -> int:
    """Run all cases, print the table on stdout, and return the exit code."""
    if measure:
        raise ConfigurationError("--measure with a sweep: measure first, and give the costs by --world")
    if seeds is not None and seed is not None:
        raise ConfigurationError(f"--seeds {seeds} goes without --seed")
    folder = run_dir or Path("runs", f"sweep-{datetime.now():%Y%m%d-%H%M%S}")
    words = [f"--{name.replace('_', '-')}={value}" for name, value in limits.items() if value is not None]
    words += [] if actors is None else [f"--actors={actors[0]}..{actors[1]}"]
    words += [] if world is None else [f"--world={world}"]
    words += [f"--set={assignment}" for assignment in assignments]
    words += [f"--world-set={assignment}" for assignment in worldly]
    cases = list(cases_of(sweep, seeds_of(seeds, seed or 0), folder))
    results = _run_all([run, *words], cases, jobs or os.cpu_count() or 1)
    if as_json:
        shown = [{"values": case.values, "seed": case.seed, "summary": result} for case, result in results]
        click.echo(json.dumps(shown))
    else:
        Console().print(table(results))
    return EXIT_DONE


def seeds_of(text: str | None, otherwise: int) -> list[int]:
    """The seeds in a text: `0..4` is 0 to 4, `3,5` is 3 and 5; None is `otherwise`. Raises ConfigurationError."""
    if text is None:
        return [otherwise]
    try:
        if ".." in text:
            first, last = map(int, text.split(".."))
            seeds = list(range(first, min(last, first + MOST_SEEDS) + 1))
        else:
            seeds = [int(one) for one in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds:
        raise ConfigurationError(f"--seeds {text}: must be a range, as in 0..4, or a list, as in 0,3")
    if len(set(seeds)) < len(seeds) or len(seeds) > MOST_SEEDS:
        raise ConfigurationError(f"--seeds {text}: must be different ones, {MOST_SEEDS:,} at most")
    return seeds


def values_of(
    text: str, option: str = "--sweep", such_as: str = "scaling.maximum=4,10 or actors=1,2,4"
) -> tuple[str, list[str]]:
    """The key and the values of `key=a,b,[c,d]`; raises ConfigurationError."""
    key, _, values = text.partition("=")
    found, depth = [""], 0
    for character in values:
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    if not key or not all(found):
        raise ConfigurationError(f"{option} {text}: must be key=a,b,..., such as {such_as}")
    return key, found


def cases_of(sweep: Sequence[str], seeds: Sequence[int], folder: Path) -> Iterator[Case]:
    """Every combination of the values, with every seed."""
    axes = [[(key, value) for value in values] for key, values in map(values_of, sweep)]
    for chosen in itertools.product(*axes):
        for seed in seeds:
            name = ",".join([*(f"{key}={value}" for key, value in chosen), f"seed={seed}"])
            yield Case(dict(chosen), seed, folder / name.replace("/", "-"))


def _run_all(words: Sequence[str], cases: Sequence[Case], jobs: int) -> list[tuple[Case, dict[str, Any]]]:
    """Run all cases; returns each with its summary, in order.

    Raises UnavailableError if one fails, ConfigurationError if it would fail again.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=quiet(sys.stderr)),
    )
    with Children() as children, bar:
        task = bar.add_task("simulations", total=len(cases))
        waiting, running = list(cases), dict[int, tuple[Case, Child]]()
        while waiting or running:
            while waiting and len(running) < jobs:
                case = waiting.pop(0)
                command = a3cd("simulate", *words, *case.words, "--json", "--lifeline")
                running[id(case)] = case, children.start(command, _nobody)
            time.sleep(LOOK_SECONDS)
            for key, (case, child) in list(running.items()):
                if child.exit_code is None:
                    continue
                if child.exit_code != EXIT_DONE:
                    kind = ConfigurationError if child.exit_code in HOPELESS else UnavailableError
                    raise kind(f"{case.folder}: ended with {child.exit_code}: {' '.join(child.last_lines)}")
                del running[key]
                bar.advance(task)
    return [(case, RunFolder(case.folder).summary()) for case in cases]


def _nobody(line: str) -> None:
    """Ignores a line of a simulation; the child keeps its last lines."""


def table(results: Sequence[tuple[Case, dict[str, Any]]]) -> Table:
    """A row for each combination of values."""
    shown = Table(box=None, pad_edge=False)
    for key in results[0][0].values:
        shown.add_column(key)
    for heading in ("runs", *COLUMNS):
        shown.add_column(heading, justify="right", no_wrap=True)
    for _, some in itertools.groupby(results, key=lambda result: result[0].values):
        group = list(some)
        figures = (median([summary[column] for _, summary in group]) for column in COLUMNS.values())
        shown.add_row(*group[0][0].values.values(), str(len(group)), *map(number, figures))
    return shown


def median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
