"""FlappyBird-v0 trained for a minute on its features, then twenty episodes with the best weights.

    python -m benchmarks flappy [--seeds 0,1,2] [--seconds 60]

Two actors train with the preset.
"""

from __future__ import annotations

import argparse

from benchmarks import tables
from benchmarks.runs import Training, evaluate
from benchmarks.tables import Cell

EPISODES = 20
STARTING_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    tables.machine()
    measured = [measure(seed, arguments.seconds) for seed in seeds]
    rows: list[tuple[Cell, ...]] = [(f"seed {seed}", *row) for seed, row in zip(seeds, measured, strict=True)]
    rows.append(("median", *(tables.median(column) for column in zip(*measured, strict=True))))
    tables.show(
        f"FlappyBird-v0, {arguments.seconds:g} s of training, then {EPISODES} episodes",
        ("", "frames", "frames/s", "training return", "mean return", "spread", "lowest", "highest"),
        rows,
    )


def measure(seed: int, seconds: float) -> tuple[float, ...]:
    """Return frames, frames per second and mean return of training; mean, spread and bounds of the evaluation."""
    arguments = ("--actors", "2", "--seed", str(seed), "--seconds", str(seconds))
    with Training("FlappyBird-v0", *arguments, label=f"seed {seed}") as training:
        summary = training.finish(seconds + STARTING_SECONDS).summary
        played = evaluate(training.folder, EPISODES)
    trained = summary["frames"], summary["frames_per_second"], summary["mean_return"]
    return *trained, played["mean"], played["std"], played["minimum"], played["maximum"]


if __name__ == "__main__":
    main()
