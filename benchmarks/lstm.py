"""Memory in a partially observed environment: CartPole-v1 without velocities, with an LSTM and without.

    python -m benchmarks lstm [--seeds 0,1,2] [--seconds 240]

Two actors train to a mean return of 475 over 100 training episodes; both networks have the same settings otherwise.
"best" is the best mean of 100 episodes in that time; "reached after" counts from starting the command, including
imports.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell

ENVIRONMENT = "benchmarks.masked:MaskedCartPole-v0"
GOAL = 475.0
SETTINGS: dict[str, Any] = {
    "environment.reward_scale": 0.1,
    "network.hidden": [32],
    "network.activation": "relu",
    "network.input_scale": 10.0,  # because velocities show only as small differences between small numbers
    "algorithm.rollout_length": 20,
    "algorithm.gae_lambda": 0.95,
    "optimizer.learning_rate": 3e-3,
    "exchange.broadcast_ms": 2.0,
}
NETWORKS = {"lstm 128": 128, "feed-forward": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--seconds", type=float, default=240.0)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    tables.machine()
    rows = [measure(name, seed, arguments.seconds) for name in NETWORKS for seed in seeds]
    columns = ("network", "seed", "reached", "reached after", "best", "frames", "frames/s")
    tables.show(f"{ENVIRONMENT} to {GOAL:g}, 2 actors", columns, rows)


def measure(name: str, seed: int, seconds: float) -> tuple[Cell, ...]:
    words = ("--actors", "2", "--seed", str(seed), "--until-return", str(GOAL), "--seconds", str(seconds))
    settings = {**SETTINGS, "network.lstm": NETWORKS[name]}
    with Training(ENVIRONMENT, *words, label=f"{name}, seed {seed}", settings=settings) as training:
        result = training.finish(seconds + 60.0)
    summary = result.summary
    after = result.since_start(result.rows[-1]) if summary["reached"] else None
    figures = (summary["best_return"], summary["frames"], summary["frames_per_second"])
    return name, str(seed), summary["reached"], after, *figures


if __name__ == "__main__":
    main()
