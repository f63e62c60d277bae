"""Series of simulated runs, a process for each core, whose results are kept: a series that was interrupted goes on.

outcomes = run_all([Case("10 actors", settings, simulation)], Path("runs/experiment"))

A case is known by its settings and its world, not by the code that ran it: an outcome says of which commit it is, and
who changes what is simulated begins another folder.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

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
"""Of a curve that is kept."""
DIGITS = 3
"""Of its figures, behind the point."""


class Case(msgspec.Struct, frozen=True):
    """One simulated run; its seed is in the settings."""

    name: str
    """Of the row that it belongs to, with its other seeds."""
    settings: Settings
    simulation: Simulation = Simulation()


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A row of metrics, in a file without the names."""

    seconds: float
    """Virtual ones."""
    actor_seconds: float
    """Of all actors together."""
    frames: int
    episodes: int
    mean_return: float | None
    """Of the last `limits.window` episodes."""
    length: float | None
    """Of these, in steps."""
    actors: int
    lag: float
    busy: float


class Outcome(msgspec.Struct, frozen=True):
    name: str
    seed: int
    commit: str
    """Of the tree that ran it."""
    curve: list[Point]

    @property
    def end(self) -> Point:
        return self.curve[-1]

    def first(self, score: float) -> Point | None:
        """Where the mean return is so high for the first time."""
        return next((at for at in self.curve if at.mean_return is not None and at.mean_return >= score), None)

    def at(self, **reached: float) -> Point | None:
        """The first point with so many episodes, frames or seconds; None: the run ended before."""
        (figure, least), *_ = reached.items()
        return next((at for at in self.curve if getattr(at, figure) >= least), None)


def add_options(parser: argparse.ArgumentParser, folder: str | Path) -> None:
    """Of a benchmark that is a series: `folder` and `jobs` as `run_all` takes them."""
    parser.add_argument("--folder", type=Path, default=Path(folder), help="of results; what is there is kept")
    parser.add_argument("--jobs", type=int, help="processes; default: one for each core")


def run_all(cases: Sequence[Case], folder: Path, jobs: int | None = None, *, each: int = 1) -> list[Outcome]:
    """The outcome of each case, in order; those that the folder has from before are not run again.

    jobs: processes at a time; None: one for each core. each: cases that a process runs; its start takes three seconds.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{_key(case)}.json" for case in cases]
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


def grouped(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """By name: the seeds of each row, in the order of the names."""
    rows: dict[str, list[Outcome]] = {}
    for one in outcomes:
        rows.setdefault(one.name, []).append(one)
    return rows


def median(outcomes: Sequence[Outcome], figure: Callable[[Outcome], float | None]) -> float | None:
    """Over the seeds; a run without the figure never got there, so that its figure is beyond all others'.

    None: half of them or more have none.
    """
    if not outcomes:
        return None
    figures = sorted(float("inf") if (value := figure(one)) is None else value for one in outcomes)
    middle = figures[(len(figures) - 1) // 2 : len(figures) // 2 + 1]
    value = sum(middle) / len(middle)
    return None if value == float("inf") else value


def median_at(outcomes: Sequence[Outcome], score: float, figure: str) -> float | None:
    """As `median`, of this figure of the point where the score is reached for the first time."""

    def found(one: Outcome) -> float | None:
        there = one.first(score)
        return None if there is None else float(getattr(there, figure))

    return median(outcomes, found)


def best_rate(
    rows: Mapping[str, Sequence[Outcome]], name: str, score: float
) -> tuple[float | None, float | None, float | None]:
    """Thousands of frames to the score, virtual seconds, and the learning rate that needs the fewest frames.

    rows: by `name, learning rate`. None: no rate got there.
    """
    found = [
        (frames / 1000, median_at(outcomes, score, "seconds"), float(row.rpartition(", ")[2]))
        for row, outcomes in rows.items()
        if row.rpartition(", ")[0] == name and (frames := median_at(outcomes, score, "frames")) is not None
    ]
    return min(found, default=(None, None, None), key=lambda one: one[0])


def _run(part: Sequence[tuple[Path, Case]]) -> int:
    """In a process of its own, whose interpreter's lock is nobody else's; gives how many there were."""
    words = [sys.executable, "-m", "benchmarks.simulations", *(str(file) for file, _ in part)]
    subprocess.run(words, cwd=tables.ROOT, input=msgspec.json.encode([case for _, case in part]), check=True)
    return len(part)


def main() -> None:
    """Such a process: the cases are on stdin, and the arguments are the files for their outcomes."""
    cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
    for file, case in zip(sys.argv[1:], cases, strict=True):
        recorder = MemoryRecorder()
        Cluster(case.settings, case.simulation, recorder).run()
        outcome = Outcome(case.name, case.settings.seed, tables.conditions()["commit"], curve(recorder.rows))
        replace_file(Path(file), msgspec.json.encode(outcome))


def curve(rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Of metrics, at most MOST_POINTS of them, the last among these."""
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


def _key(case: Case) -> str:
    return hashlib.sha256(msgspec.json.encode(case, order="sorted")).hexdigest()[:16]


if __name__ == "__main__":
    main()
