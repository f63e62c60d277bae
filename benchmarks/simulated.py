"""Simulated runs beside real ones: frames per second, lag and learning, for several numbers of paced actors.

    python -m benchmarks simulated [--actors 1,2,4] [--seeds 0,1,2] [--episodes N] [--pace S]

CartPole-v1 at a fixed pace (20 ms), so that the machine carries the real actors; the costs of the simulation are
measured on it. Frames per second are those of the second half of the episodes, returns means of the last 100 of them;
all are medians over the seeds. Real runs of one seed differ, too: messages come when they come.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks import tables
from benchmarks.runs import Gathered
from common.run import presets
from common.settings.toml import replace_at
from simulation.cluster import Cluster
from simulation.measure import measured
from simulation.recorders import MemoryRecorder
from simulation.settings import Simulation

SETTINGS: dict[str, Any] = {
    "environment.num_envs": 1,
    "environment.max_episode_steps": 200,
    "algorithm.rollout_length": 20,
    "optimizer.kind": "rmsprop",
    "optimizer.learning_rate": 3e-3,
    "exchange.kind": "gradients",
    "limits.until_return": 1e9,
    "limits.frames": 0,
    "limits.seconds": 1800.0,
}
FIGURES = ("frames/s", "lag", "learner busy", "mean return", "seconds")
Rows = Sequence[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", default="1,2,4")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--pace", type=float, default=0.02, help="seconds of a step")
    arguments = parser.parse_args()
    settings = SETTINGS | {"limits.episodes": arguments.episodes, "environment.step_seconds": arguments.pace}
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    tables.machine()
    rows = [line for count in arguments.actors.split(",") for line in compared(int(count), seeds, settings)]
    tables.show(f"simulated and real, seeds {arguments.seeds}", ("actors", "", *FIGURES), rows)


def compared(actors: int, seeds: Sequence[int], settings: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Medians of the real and of the simulated runs, and the quotient."""
    some = [settings | {"seed": seed} for seed in seeds]
    medians = [
        [tables.median(column) for column in zip(*(run(actors, each) for each in some), strict=True)]
        for run in (real, simulated)
    ]
    ratio = [own / other if own is not None and other else None for other, own in zip(*medians, strict=True)]
    named = zip(("real", "simulated", "quotient"), (*medians, ratio), strict=True)
    return [(actors, name, *figures) for name, figures in named]


def real(actors: int, settings: dict[str, Any]) -> tuple[float | None, ...]:
    label = f"{actors} actors, seed {settings['seed']}"
    with Gathered("CartPole-v1", actors, label=label, settings=settings) as run:
        result = run.finish(20.0 * actors + settings["limits.seconds"])
    return figures(result.rows, result.summary)


def simulated(actors: int, settings: dict[str, Any]) -> tuple[float | None, ...]:
    fleet = {"scaling.policy": "fixed", "scaling.minimum": actors, "scaling.maximum": actors}
    whole = replace_at(presets.for_environment("CartPole-v1", None), settings | fleet)
    costs = msgspec.structs.replace(measured(whole, Simulation().costs), actor_start=0.0)
    recorder = MemoryRecorder()
    cluster = Cluster(whole, Simulation(costs=costs), recorder)
    cluster.run()
    return figures([dict(row) for row in recorder.rows], msgspec.to_builtins(cluster.status()))


def figures(rows: Rows, summary: dict[str, Any]) -> tuple[float | None, ...]:
    end = rows[-1]
    middle = next(row for row in rows if row["episodes"] >= end["episodes"] // 2)
    took = end["seconds"] - middle["seconds"]
    rate = (end["frames"] - middle["frames"]) / took if took else None
    return rate, summary["lag_mean"], summary["learner_busy"], end["mean_return"], end["seconds"]


if __name__ == "__main__":
    main()
