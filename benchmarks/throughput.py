"""Training speed of whole runs, two actors and a learner on this machine.

    python -m benchmarks throughput [--seconds 30]

Rates are measured from a quarter of the run to its end, so that neither imports nor the first steps count.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import tables
from benchmarks.runs import RunFailedError, Training
from benchmarks.tables import Cell
from common.run.presets import for_environment

RUNS: tuple[tuple[str, dict[str, int]], ...] = (
    ("CartPole-v1", {}),
    ("CartPole-v1", {"num_envs": 64}),
    ("FlappyBird-v0", {}),
    ("FlappyBird-v0", {"num_envs": 32}),
    ("ALE/Pong-v5", {}),
    ("ALE/Pong-v5", {"rollout_length": 20}),
)
"""Environments, and settings that differ from their presets."""
COLUMNS = ("frames/s", "gradients/s", "learner busy", "lag", "lag p95", "gradient B/frame", "weight B/frame")
ENDLESS = {"exchange.kind": "gradients", "limits.until_return": 1e9, "limits.frames": 1_000_000_000}
STARTING_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="per environment")
    seconds = parser.parse_args().seconds
    tables.machine()
    rows: list[tuple[Cell, ...]] = []
    for env, changed in RUNS:
        preset = for_environment(env)
        num_envs = changed.get("num_envs", preset.environment.num_envs)
        rollout_length = changed.get("rollout_length", preset.algorithm.rollout_length)
        try:
            figures: tuple[Cell, ...] = measure(env, num_envs, rollout_length, seconds)
        except RunFailedError as error:  # for example, a game that takes too long to start
            print(error, file=sys.stderr, flush=True)
            figures = (None,) * len(COLUMNS)
        rows.append((env, num_envs, rollout_length, *figures))
    columns = ("environment", "num_envs", "rollout_length", *COLUMNS)
    tables.show(f"Training for {seconds:g} s, 2 actors", columns, rows)


def measure(env: str, num_envs: int, rollout_length: int, seconds: float) -> tuple[float, ...]:
    """Return the values of COLUMNS."""
    arguments = ("--actors", "2", "--seconds", str(seconds))
    settings = {**ENDLESS, "environment.num_envs": num_envs, "algorithm.rollout_length": rollout_length}
    with Training(env, *arguments, label=env, settings=settings) as training:
        result = training.finish(seconds + STARTING_SECONDS)
    summary, last = result.summary, result.rows[-1]
    first = next(row for row in result.rows if row["seconds"] >= last["seconds"] / 4)
    return (
        rate(first, last, "frames"),
        rate(first, last, "gradients"),
        last["learner_busy"],
        summary["lag_mean"],
        summary["lag_p95"],
        summary["gradient_bytes"] / summary["frames"],
        summary["weight_bytes"] / summary["frames"],
    )


def rate(first: dict[str, Any], last: dict[str, Any], what: str) -> float:
    """Return the growth of a column per second between two rows."""
    return float((last[what] - first[what]) / (last["seconds"] - first["seconds"]))


if __name__ == "__main__":
    main()
