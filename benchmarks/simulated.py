"""Simulated runs compared with real ones: frames per second, lag and episodes to a goal, for several numbers of actors.

    python -m benchmarks simulated [--actors 1,2,4,8,12] [--seeds 0,1,2] [--goal R] [--episodes N] [--pace S]

CartPole-v1 at a fixed pace (4 ms), so that the machine can carry the real actors; the simulation's costs are measured
on it. Frames per second are those of the second half of the episodes; all figures are medians over the seeds. Real runs
of one seed differ too, because messages arrive at random times, so there are five simulated runs for each real one.
"percent" is the simulated figure relative to the real one. "machine" is the share of a pacer's steps that other work on
the cores left to it: only what a real run lacks in frames per second beyond that is the simulation's error. With all
defaults it takes some seventeen minutes.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import msgspec

from benchmarks import tables
from benchmarks.runs import Gathered
from common.run import presets
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.cluster import Cluster
from simulation.measure import measured
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Simulation

SETTINGS: dict[str, Any] = {
    "environment.num_envs": 1,
    "environment.max_episode_steps": 200,
    "algorithm.rollout_length": 20,
    "optimizer.kind": "rmsprop",
    "optimizer.learning_rate": 3e-3,
    "exchange.kind": "gradients",
    "limits.frames": 0,
    "limits.seconds": 300.0,
}
SIMULATED_SEEDS = 5
"""Simulated runs for each real run."""
FIGURES = ("frames/s", "lag", "episodes to the goal", "frames to the goal", "seconds", "learner busy", "machine")
Rows = Sequence[dict[str, Any]]
Figures = tuple[float | None, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", default="1,2,4,8,12")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--goal", type=float, default=150.0, help="mean return of the last 100 episodes")
    parser.add_argument("--episodes", type=int, default=2000, help="at most")
    parser.add_argument("--pace", type=float, default=0.004, help="seconds of a step")
    arguments = parser.parse_args()
    settings = SETTINGS | {
        "limits.episodes": arguments.episodes,
        "limits.until_return": arguments.goal,
        "environment.step_seconds": arguments.pace,
    }
    counts = [int(count) for count in arguments.actors.split(",")]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    tables.machine()
    costs = msgspec.structs.replace(measured(_whole(1, settings), Costs()), actor_start=0.5)
    runs = {count: (reals(count, seeds, settings), simulations(count, seeds, settings, costs)) for count in counts}
    rows = [line for count in counts for line in compared(count, *runs[count])]
    tables.show(f"simulated and real, seeds {arguments.seeds}", ("actors", "", *FIGURES), rows)
    wanted = FIGURES.index("episodes to the goal")
    spread = [
        (count, *lowest_and_highest(real, wanted), *lowest_and_highest(own, wanted))
        for count, (real, own) in runs.items()
    ]
    columns = ("actors", "real, fewest", "most", "simulated, fewest", "most")
    tables.show(f"episodes to a mean return of {arguments.goal:g}", columns, spread)


def reals(actors: int, seeds: Sequence[int], settings: dict[str, Any]) -> list[Figures]:
    return [real(actors, settings | {"seed": seed}) for seed in seeds]


def simulations(actors: int, seeds: Sequence[int], settings: dict[str, Any], costs: Costs) -> list[Figures]:
    some = [settings | {"seed": seed + 1000 * more} for more in range(SIMULATED_SEEDS) for seed in seeds]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(simulated, [actors] * len(some), some, [costs] * len(some)))


def compared(actors: int, real: Sequence[Figures], own: Sequence[Figures]) -> list[tuple[Any, ...]]:
    """Return the medians of the real runs and of the simulated ones, and the latter in percent of the former."""
    medians = [[tables.median(column) for column in zip(*runs, strict=True)] for runs in (real, own)]
    ratio = [100 * mine / other if mine is not None and other else None for other, mine in zip(*medians, strict=True)]
    named = zip(("real", "simulated", "percent"), (*medians, ratio), strict=True)
    return [(actors, name, *figures) for name, figures in named]


def lowest_and_highest(runs: Sequence[Figures], figure: int) -> tuple[float | None, float | None]:
    there = [one for run in runs if (one := run[figure]) is not None]
    return min(there, default=None), max(there, default=None)


def real(actors: int, settings: dict[str, Any]) -> Figures:
    label = f"{actors} actors, seed {settings['seed']}"
    with Gathered("CartPole-v1", actors, label=label, settings=settings) as run:
        pacer = Pacer(settings["environment.step_seconds"])
        result = run.finish(20.0 * actors + settings["limits.seconds"])
        return *figures(result.rows, result.summary), pacer.end(result.rows[0]["time"])


def simulated(actors: int, settings: dict[str, Any], costs: Costs) -> Figures:
    recorder = MemoryRecorder()
    cluster = Cluster(_whole(actors, settings), Simulation(costs=costs), recorder)
    cluster.run()
    return *figures([dict(row) for row in recorder.rows], msgspec.to_builtins(cluster.status())), 1.0


def _whole(actors: int, settings: dict[str, Any]) -> Settings:
    fleet = {"scaling.policy": "fixed", "scaling.minimum": actors, "scaling.maximum": actors}
    return replace_at(presets.for_environment("CartPole-v1", None), settings | fleet)


def figures(rows: Rows, summary: dict[str, Any]) -> Figures:
    """Return all of FIGURES but the last."""
    end = rows[-1]
    middle = next(row for row in rows if row["episodes"] >= end["episodes"] // 2)
    took = end["seconds"] - middle["seconds"]
    rate = (end["frames"] - middle["frames"]) / took if took else None
    goal = (float(summary["episodes"]), float(summary["frames"])) if summary["reached"] else (None, None)
    return rate, summary["lag_mean"], *goal, end["seconds"], summary["learner_busy"]


class Pacer:
    """A thread that keeps a pace as `PacedEnvironments` does, with nothing to do in a step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lost: list[tuple[float, float]] = []
        """Delays: their times, in seconds since 1970, and their seconds."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            due += self._seconds
            now = time.monotonic()
            if now < due:
                time.sleep(due - now)
            else:
                self._lost.append((time.time(), now - due))
                due = now

    def end(self, since: float) -> float:
        """Stop, and return the share of possible steps that were taken after `since` (in seconds since 1970)."""
        self._ended.set()
        self._thread.join()
        return 1 - sum(lost for when, lost in self._lost if when >= since) / (time.time() - since)


if __name__ == "__main__":
    main()
