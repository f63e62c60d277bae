"""Frames to a goal, here and in another checkout in turn: whether code that was made faster still learns as well.

    python -m benchmarks frames [--against FOLDER] [--environments CartPole-v1,FlappyBird-v0] [--seeds 0,1,2,3,4]
                               [--set SECTION.KEY=VALUE]

Two actors train with the preset until the mean return of 100 training episodes is 475 in CartPole-v1, or 10 in
FlappyBird-v0 (more than one pipe passed); "-": not within --seconds. FOLDER is explained in benchmarks/against.py. The
order in which gradients arrive is random, so the frames of one seed vary from run to run: compare medians. An actor
that waits for the learner adds up its gradients: more frames per gradient mean fewer optimizer steps for these frames.
--set applies to both checkouts, whose presets may differ.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks import against, tables
from benchmarks.runs import Training
from benchmarks.tables import Cell

GOALS = {"CartPole-v1": 475.0, "FlappyBird-v0": 10.0}
STARTING_SECONDS = 60.0
COLUMNS = (
    "environment",
    "",
    *("frames", "frames before", "frames / before"),
    *("seconds", "seconds before"),
    *("frames a gradient", "frames a gradient before"),
)
Measured = tuple[float | None, float | None, float | None]
"""Frames to the goal, seconds from the run's start, frames per applied gradient; None: not reached."""
NOTHING: Measured = (None, None, None)
Pair = tuple[Measured, Measured]
"""Measured here, and in the other checkout."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    against.add_option(parser)
    parser.add_argument("--environments", default=",".join(GOALS))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--seconds", type=float, default=120.0, help="of training, at most")
    parser.add_argument("--set", action="append", default=[], help="may be repeated")
    given = parser.parse_args()
    tables.machine()
    settings = [word for assignment in given.set for word in ("--set", assignment)]
    other = against.checkout(given)
    rows: list[tuple[Cell, ...]] = []
    for env in given.environments.split(","):
        pairs = [pair(env, int(seed), given.seconds, other, settings) for seed in given.seeds.split(",")]
        rows += [row(env, f"seed {seed}", one) for seed, one in zip(given.seeds.split(","), pairs, strict=True)]
        rows.append(row(env, "median", medians(pairs)))
    tables.show("To the goal, 2 actors", COLUMNS, rows)


def pair(env: str, seed: int, seconds: float, other: Path | None, settings: Sequence[str] = ()) -> Pair:
    """Measure both checkouts, one right after the other."""
    here = measure(env, seed, seconds, None, settings)
    return here, measure(env, seed, seconds, other, settings) if other else NOTHING


def measure(env: str, seed: int, seconds: float, checkout: Path | None, settings: Sequence[str]) -> Measured:
    """Train once; settings: words of the command line."""
    limits = ("--until-return", str(GOALS[env]), "--seconds", str(seconds))
    arguments = ("--actors", "2", "--seed", str(seed), *limits, *settings)
    label = f"{env}, seed {seed}, {'before' if checkout else 'now'}"
    with Training(env, *arguments, label=label, checkout=checkout) as training:
        result = training.finish(seconds + STARTING_SECONDS)
    summary = result.summary
    if not summary["reached"]:
        return NOTHING
    return summary["frames"], result.rows[-1]["seconds"], summary["frames"] / summary["gradients"]


def medians(pairs: Sequence[Pair]) -> Pair:
    """Return the median of each figure, on each side."""
    now, before = zip(*pairs, strict=True)
    return _medians(now), _medians(before)


def _medians(runs: Sequence[Measured]) -> Measured:
    frames, seconds, frames_a_gradient = zip(*runs, strict=True)
    return middle(frames), middle(seconds), middle(frames_a_gradient)


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median (of two middle values the larger); None, the goal not reached, counts as infinite."""
    ordered = sorted(values, key=lambda value: math.inf if value is None else value)
    return ordered[len(ordered) // 2]


def row(env: str, what: str, both: Pair) -> tuple[Cell, ...]:
    now, before = both
    return env, what, now[0], before[0], against.ratio(now[0], before[0]), now[1], before[1], now[2], before[2]


if __name__ == "__main__":
    main()
