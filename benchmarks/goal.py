"""From the command to the goal: CartPole-v1 to a training mean of 475 over 100 episodes, two actors.

    python -m benchmarks goal [--seeds 0,1,2,3,4]

"seconds" is the time from starting the command to its exit, "reached after" that to the goal; both include imports.
"""

from __future__ import annotations

import argparse

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell

GOAL = 475.0
LIMIT_SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    tables.machine()
    measured = [measure(seed) for seed in seeds]
    columns = list(zip(*measured, strict=True))
    rows: list[tuple[Cell, ...]] = [(f"seed {seed}", *row) for seed, row in zip(seeds, measured, strict=True)]
    rows.append(("median", *(tables.median(column) for column in columns[:3]), all(columns[3])))
    rows.append(("max", *(max((value for value in column if value), default=None) for column in columns[:3]), ""))
    tables.show(f"CartPole-v1 to {GOAL:g}, 2 actors", ("", "seconds", "reached after", "frames", "reached"), rows)


def measure(seed: int) -> tuple[float, float | None, int, bool]:
    """Return the seconds to the end and to the goal, the frames, and whether the goal was reached."""
    arguments = ("--actors", "2", "--seed", str(seed), "--until-return", str(GOAL))
    with Training("CartPole-v1", *arguments, label=f"seed {seed}") as training:
        result = training.finish(LIMIT_SECONDS)
    reached = result.summary["reached"]
    # Reaching the goal ends the run, and the last row is written at the run's end.
    after = result.since_start(result.rows[-1]) if reached else None
    return result.seconds, after, result.summary["frames"], reached


if __name__ == "__main__":
    main()
