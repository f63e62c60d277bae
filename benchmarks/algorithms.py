"""Every algorithm with every exchange, trained to the same goal: frames, seconds, bytes, the learner's load.

    python -m benchmarks algorithms [--env CartPole-v1,FlappyBird-v0] [--seeds 0,1,2] [--seconds 120] [--only a2c]

Prints a table for each environment. --only takes algorithms, or algorithm/exchange. Each run has two actors and the
environment's preset with its settings for the algorithm. "reached" counts the seeds that reach the goal in time;
"frames" and "seconds" are medians over these seeds, all other columns are medians over all seeds. Bytes are per frame
played: "up" from actors to the learner, "down" for weights or actions.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell

WAYS = (
    ("a3c", "gradients"),
    ("a3c", "trajectories"),
    ("a3c", "actions"),
    ("one-step-q", "gradients"),
    ("one-step-sarsa", "gradients"),
    ("n-step-q", "gradients"),
    ("a2c", "trajectories"),
    ("vtrace", "trajectories"),
    ("vtrace", "actions"),
    ("ppo", "trajectories"),
    ("ppo", "gradients"),
)
GOALS = {"CartPole-v1": 475.0, "FlappyBird-v0": 10.0}
"""Mean training return over 100 episodes. FlappyBird gives 4 up to the first pipe, and 4.7 for each pipe passed."""
COLUMNS = ("reached", "frames", "seconds", "frames/s", "bytes up", "bytes down", "learner busy", "lag", "lag p95")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default=",".join(GOALS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--seconds", type=float, default=120.0, help="longest for one run")
    parser.add_argument("--only", default="", help="algorithms, or algorithm/exchange")
    arguments = parser.parse_args()
    environments = arguments.env.split(",")
    if unknown := set(environments) - set(GOALS):
        parser.error(f"--env: no goal is set for {', '.join(sorted(unknown))}; there are {', '.join(GOALS)}")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    only = set(arguments.only.split(",")) - {""}
    ways = [way for way in WAYS if not only or way[0] in only or "/".join(way) in only]
    tables.machine()
    for env in environments:
        rows = [(*way, *measure(env, *way, seeds, arguments.seconds)) for way in ways]
        title = f"{env} to {GOALS[env]:g} within {arguments.seconds:g} s, seeds {arguments.seeds}"
        tables.show(title, ("algorithm", "exchange", *COLUMNS), rows)


def measure(env: str, algorithm: str, exchange: str, seeds: list[int], seconds: float) -> tuple[Cell, ...]:
    """Return the values of COLUMNS."""
    runs = [run(env, algorithm, exchange, seed, seconds) for seed in seeds]
    reached = [one for one in runs if one["reached"]]
    return (
        f"{len(reached)}/{len(runs)}",
        tables.median(one["frames"] for one in reached),
        tables.median(one["seconds"] for one in reached),
        tables.median(one["frames_per_second"] for one in runs),
        tables.median(one["gradient_bytes"] / one["frames"] for one in runs),
        tables.median((one["weight_bytes"] + one["action_bytes"]) / one["frames"] for one in runs),
        *(tables.median(one[name] for one in runs) for name in ("learner_busy", "lag_mean", "lag_p95")),
    )


def run(env: str, algorithm: str, exchange: str, seed: int, seconds: float) -> dict[str, Any]:
    """Return the summary of one run."""
    arguments = ("--algorithm", algorithm, "--actors", "2", "--seed", str(seed), "--seconds", str(seconds))
    goal = ("--until-return", str(GOALS[env]))
    label = f"{env}, {algorithm}, {exchange}, seed {seed}"
    settings = {"exchange.kind": exchange}
    with Training(env, *arguments, *goal, label=label, settings=settings) as training:
        return training.finish(seconds + 60.0).summary


if __name__ == "__main__":
    main()
