"""How much sooner more actors get to a score, for the four methods of Mnih et al. 2016 (table 2), on a small task.

    python -m benchmarks speedup [--actors 1,2,4,8,16] [--seeds 0,1,2,3,4] [--score S] [--folder FOLDER] [--jobs N]

Simulated, CartPole-v1: one environment per actor, as each thread of the paper had, steps of 10 ms, and a learner that
is no bottleneck. A speed-up is the virtual time that one actor took over that of N, medians over the seeds; it is above
N if more actors also need fewer frames, which the paper saw for one-step methods.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import tables
from benchmarks.simulations import Case, Outcome, add_options, grouped, median_at, run_all
from common.run import presets
from common.settings.toml import replace_at
from simulation.settings import Costs, Simulation

PAPER: dict[str, dict[int, float]] = {
    "one-step-q": {1: 1.0, 2: 3.0, 4: 6.3, 8: 13.3, 16: 24.1},
    "one-step-sarsa": {1: 1.0, 2: 2.8, 4: 5.9, 8: 13.1, 16: 22.1},
    "n-step-q": {1: 1.0, 2: 2.7, 4: 5.9, 8: 10.7, 16: 17.2},
    "a3c": {1: 1.0, 2: 2.1, 4: 3.7, 8: 6.9, 16: 12.5},
}
"""Speed-ups by the number of threads, means over seven Atari games: Mnih et al. 2016, https://arxiv.org/abs/1602.01783."""
COMMON: dict[str, Any] = {
    "environment.num_envs": 1,
    "limits.frames": 1_000_000,
    "limits.seconds": 0.0,
}
OWN: dict[str, dict[str, Any]] = {
    "a3c": {"algorithm.rollout_length": 20, "optimizer.learning_rate": 1e-3},
    "n-step-q": {"algorithm.rollout_length": 20, "optimizer.learning_rate": 1e-3},
    "one-step-q": {"algorithm.rollout_length": 5, "optimizer.learning_rate": 5e-4},
    "one-step-sarsa": {"algorithm.rollout_length": 5, "optimizer.learning_rate": 5e-4},
}
"""Besides the preset's, which are for sixteen environments: rollouts, and steps as short as their noise asks for."""
COSTS = Costs(batch_step=0.01, environment_step=0.0, optimizer_step=1e-4, message=2e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", default=",".join(PAPER))
    parser.add_argument("--actors", default="1,2,4,8,16")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--score", type=float, default=195.0, help="mean return of 100 episodes")
    add_options(parser, "runs/speedup")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.actors.split(",")]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    algorithms = arguments.algorithms.split(",")
    cases = [
        case(algorithm, count, seed, arguments.score) for algorithm in algorithms for count in counts for seed in seeds
    ]
    tables.machine()
    rows = grouped(run_all(cases, arguments.folder, arguments.jobs))
    title = f"CartPole-v1 to {arguments.score:g}, seeds {arguments.seeds}"
    columns = ("", "actors", "k frames", "virtual s", "speed-up", "the paper's", "mean lag")
    tables.show(
        title, columns, [line(algorithm, count, arguments.score, rows) for algorithm in algorithms for count in counts]
    )


def case(algorithm: str, actors: int, seed: int, score: float) -> Case:
    settings = presets.for_environment("CartPole-v1", algorithm)
    settings = replace_at(
        settings,
        COMMON
        | OWN[algorithm]
        | {"seed": seed, "scaling.minimum": actors, "scaling.maximum": actors, "limits.until_return": score},
    )
    return Case(f"{algorithm}, {actors}", settings, Simulation(costs=COSTS))


def line(algorithm: str, actors: int, score: float, rows: dict[str, list[Outcome]]) -> tuple[tables.Cell, ...]:
    found = rows[f"{algorithm}, {actors}"]
    frames, took = (median_at(found, score, figure) for figure in ("frames", "seconds"))
    alone = median_at(rows.get(f"{algorithm}, 1", []), score, "seconds")
    speed_up = alone / took if alone and took else None
    lag = tables.median(one.end.lag for one in found)
    return algorithm, actors, frames and frames / 1000, took, speed_up, PAPER[algorithm].get(actors), lag


if __name__ == "__main__":
    main()
