"""Speed-up by more actors, on a small task, for the four methods of Mnih et al. 2016 (table 2).

    python -m benchmarks speedup [--actors 1,2,4,8,16] [--rates 0.0005,0.001,0.002] [--seeds 0,1,2,3,4] [--score S]
                                 [--folder FOLDER] [--jobs N]

Simulated, CartPole-v1: one environment per actor (like each thread in the paper), steps of 10 ms, and a learner that is
no bottleneck. Each row uses the learning rate that suits it best. The speed-up is the virtual time to the score with
one actor divided by that with N, medians over the seeds; it is above N if more actors also need fewer frames, which the
paper saw for one-step methods.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import tables
from benchmarks.simulations import Case, Outcome, add_options, best_rate, grouped, run_all
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
    "limits.frames": 300_000,
    "limits.seconds": 0.0,
}
ROLLOUTS = {"a3c": 20, "n-step-q": 20, "one-step-q": 5, "one-step-sarsa": 5}
"""Steps of a rollout; the presets' lengths are for sixteen environments."""
COSTS = Costs(batch_step=0.01, environment_step=0.0, optimizer_step=1e-4, message=2e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", default=",".join(PAPER))
    parser.add_argument("--actors", default="1,2,4,8,16")
    parser.add_argument("--rates", default="0.0005,0.001,0.002", help="learning rates")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--score", type=float, default=195.0, help="mean return of 100 episodes")
    add_options(parser, "runs/speedup")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.actors.split(",")]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    algorithms = arguments.algorithms.split(",")
    cases = [
        case(algorithm, count, rate, seed, arguments.score)
        for algorithm in algorithms
        for count in counts
        for rate in map(float, arguments.rates.split(","))
        for seed in seeds
    ]
    tables.machine()
    rows = grouped(run_all(cases, arguments.folder, arguments.jobs, each=4))
    title = f"CartPole-v1 to {arguments.score:g}, seeds {arguments.seeds}"
    columns = ("", "actors", "k frames", "virtual s", "rate", "speed-up", "the paper's")
    tables.show(
        title, columns, [line(algorithm, count, arguments.score, rows) for algorithm in algorithms for count in counts]
    )


def case(algorithm: str, actors: int, rate: float, seed: int, score: float) -> Case:
    own = {
        "seed": seed,
        "algorithm.rollout_length": ROLLOUTS[algorithm],
        "optimizer.learning_rate": rate,
        "scaling.minimum": actors,
        "scaling.maximum": actors,
        "limits.until_return": score,
    }
    settings = replace_at(presets.for_environment("CartPole-v1", algorithm), COMMON | own)
    return Case(f"{algorithm}, {actors}, {rate:g}", settings, Simulation(costs=COSTS))


def line(algorithm: str, actors: int, score: float, rows: dict[str, list[Outcome]]) -> tuple[tables.Cell, ...]:
    best = best_rate(rows, f"{algorithm}, {actors}", score)
    alone = best_rate(rows, f"{algorithm}, 1", score).seconds
    speed_up = alone / best.seconds if alone and best.seconds else None
    return algorithm, actors, best.k_frames, best.seconds, best.rate, speed_up, PAPER[algorithm].get(actors)


if __name__ == "__main__":
    main()
