"""Series of simulated runs, one process per core. Results are kept, so that an interrupted series can go on.

    outcomes = run_all([Case("10 actors", settings, simulation)], Path("runs/experiment"))

A case is identified by its name, settings and world (and see ADDED), not by the code that ran it. An outcome names its
commit; use another folder after a change of the code that is simulated.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import tables
from common.host.atomic_file import replace_file
from common.settings.sections import Settings
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Simulation

MOST_POINTS = 400
"""Most points of a curve that is kept."""
DIGITS = 3
"""Decimal places of a curve's figures."""
ADDED: dict[str, object] = {
    "settings.optimizer.cuda_graphs": False,
    "settings.environment.crop_top": 0.0,
    "settings.environment.crop_bottom": 0.0,
}
"""What was added to a Case after outcomes had been kept: its path, and the value with which a run is as it was before.

A case with this value keeps its earlier key. The values are not read from the defaults, so with a changed default it is
another case.
"""


class Case(msgspec.Struct, frozen=True):
    """One simulated run; its seed is in the settings."""

    name: str
    """Name of its row in the table, which it shares with the row's other seeds."""
    settings: Settings
    simulation: Simulation = Simulation()


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A row of metrics, written to files without field names."""

    seconds: float
    """Virtual seconds since the beginning."""
    actor_seconds: float
    """Virtual seconds of all actors together."""
    frames: int
    episodes: int
    mean_return: float | None
    """Mean return of the last `limits.window` episodes."""
    length: float | None
    """Mean length of these episodes, in steps."""
    actors: int
    lag: float
    busy: float


class Outcome(msgspec.Struct, frozen=True):
    name: str
    seed: int
    commit: str
    """Commit of the tree that ran it."""
    curve: list[Point]

    @property
    def end(self) -> Point:
        return self.curve[-1]

    def first(self, score: float) -> Point | None:
        """Return the first point whose mean return is at least `score`; None: there is none."""
        return next((at for at in self.curve if at.mean_return is not None and at.mean_return >= score), None)

    def at(self, **reached: float) -> Point | None:
        """Return the first point with at least this many episodes, frames or seconds; None: the run ended before."""
        (figure, least), *_ = reached.items()
        return next((at for at in self.curve if getattr(at, figure) >= least), None)


def add_options(parser: argparse.ArgumentParser, folder: str | Path) -> None:
    """Add a series' options: `folder` and `jobs` as in `run_all`."""
    parser.add_argument("--folder", type=Path, default=Path(folder), help="of results; what is there is kept")
    parser.add_argument("--jobs", type=int, help="processes; default: one for each core")


def run_all(cases: Sequence[Case], folder: Path, jobs: int | None = None, *, each: int = 1) -> list[Outcome]:
    """Return the outcome of each case, in order; cases whose outcome is in the folder are not run again.

    jobs: processes at a time; None: one per core. each: cases per process, whose start takes three seconds.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = [file_of(case, folder) for case in cases]
    missing = [(file, case) for file, case in dict(zip(files, cases, strict=True)).items() if not file.exists()]
    jobs = jobs or len(os.sched_getaffinity(0))
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as bar,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = bar.add_task("simulations", total=len(cases), completed=len(cases) - len(missing))
        parts = [missing[start : start + each] for start in range(0, len(missing), each)]
        try:
            for done in as_completed([pool.submit(_run, part) for part in parts]):
                bar.advance(task, done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [msgspec.json.decode(file.read_bytes(), type=Outcome) for file in files]


def file_of(case: Case, folder: Path) -> Path:
    """Return the file of a case's outcome."""
    parts: dict[str, Any] = msgspec.to_builtins(case)
    for path, value in ADDED.items():
        *above, key = path.split(".")
        section = functools.reduce(operator.getitem, above, parts)
        if section[key] == value:
            del section[key]
    return folder / f"{hashlib.sha256(msgspec.json.encode(parts, order='sorted')).hexdigest()[:16]}.json"


def grouped(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each row (one per seed) by its name, in the order in which names first appear."""
    rows: dict[str, list[Outcome]] = {}
    for one in outcomes:
        rows.setdefault(one.name, []).append(one)
    return rows


def median(outcomes: Sequence[Outcome], figure: Callable[[Outcome], float | None]) -> float | None:
    """Return the median over the seeds; a run without the figure did not reach its goal, and counts as infinite.

    None: half of the runs or more have no figure.
    """
    if not outcomes:
        return None
    figures = sorted(float("inf") if (value := figure(one)) is None else value for one in outcomes)
    middle = figures[(len(figures) - 1) // 2 : len(figures) // 2 + 1]
    value = sum(middle) / len(middle)
    return None if value == float("inf") else value


def median_at(outcomes: Sequence[Outcome], score: float, figure: str) -> float | None:
    """Return the `median` of a figure at the point where the score is first reached."""

    def found(one: Outcome) -> float | None:
        there = one.first(score)
        return None if there is None else float(getattr(there, figure))

    return median(outcomes, found)


class AtScore(NamedTuple):
    """Medians where a score is first reached; None: it is not."""

    k_frames: float | None = None
    episodes: float | None = None
    seconds: float | None = None
    rate: float | None = None
    """Learning rate."""


class AtEnd(NamedTuple):
    """Medians at the end of runs that did not reach a score; None: they did."""

    mean_return: float | None = None
    lag: float | None = None
    rate: float | None = None
    """Learning rate."""


def best_rate(rows: Mapping[str, Sequence[Outcome]], name: str, score: float) -> AtScore:
    """Return the medians at the learning rate that needs the fewest frames. rows: by `name, learning rate`."""
    found = [
        AtScore(
            frames / 1000,
            median_at(outcomes, score, "episodes"),
            median_at(outcomes, score, "seconds"),
            rate,
        )
        for rate, outcomes in _by_rate(rows, name).items()
        if (frames := median_at(outcomes, score, "frames")) is not None
    ]
    return min(found, default=AtScore())


def best_end(rows: Mapping[str, Sequence[Outcome]], name: str, score: float) -> AtEnd:
    """Return the medians at the learning rate with the highest return, if the score is reached with none of them."""
    if best_rate(rows, name, score) != AtScore():
        return AtEnd()
    found = [
        AtEnd(reached, median(outcomes, lambda one: one.end.lag), rate)
        for rate, outcomes in _by_rate(rows, name).items()
        if (reached := median(outcomes, lambda one: one.end.mean_return)) is not None
    ]
    return max(found, default=AtEnd())


def _by_rate(rows: Mapping[str, Sequence[Outcome]], name: str) -> dict[float, Sequence[Outcome]]:
    parts = ((row.rpartition(", "), outcomes) for row, outcomes in rows.items())
    return {float(rate): outcomes for (of, _, rate), outcomes in parts if of == name}


def _run(part: Sequence[tuple[Path, Case]]) -> int:
    """Run cases in another process, which has its own interpreter lock; return their number."""
    words = [sys.executable, "-m", "benchmarks.simulations", *(str(file) for file, _ in part)]
    subprocess.run(words, cwd=tables.ROOT, input=msgspec.json.encode([case for _, case in part]), check=True)
    return len(part)


def main() -> None:
    """The process that `_run` starts: reads cases from stdin; its arguments are the files for their outcomes."""
    cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
    for file, case in zip(sys.argv[1:], cases, strict=True):
        recorder = MemoryRecorder()
        Cluster(case.settings, case.simulation, recorder).run()
        outcome = Outcome(case.name, case.settings.seed, tables.conditions()["commit"], curve(recorder.rows))
        replace_file(Path(file), msgspec.json.encode(outcome))


def curve(rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return at most MOST_POINTS points of the metrics, among them the last."""
    points: list[Point] = []
    actor_seconds = before = 0.0
    for row in rows:
        actor_seconds += row["actors"] * (row["seconds"] - before)
        before = row["seconds"]
        point = Point(
            seconds=round(row["seconds"], DIGITS),
            actor_seconds=round(actor_seconds, DIGITS),
            frames=row["frames"],
            episodes=row["episodes"],
            mean_return=_rounded(row["mean_return"]),
            length=_rounded(row["episode_length"]),
            actors=row["actors"],
            lag=round(row["lag_mean"], DIGITS),
            busy=round(row["learner_busy"], DIGITS),
        )
        points.append(point)
    every = -(-len(points) // MOST_POINTS)
    return points[::-1][::every][::-1] if every > 1 else points


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


if __name__ == "__main__":
    main()
