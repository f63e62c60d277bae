"""From 6 to 12 actors by how long episodes last, as the original experiment did by hand, in small.

    python benchmarks/growth.py [--seconds 150]

CartPole-v1 at a fixed pace: an episode lasts the longer the better it is played. Thresholds and the episodes between
additions are those of the experiment (20 / 40 / 60 s add 1 / 2 / 3 actors, 1000 episodes), scaled down.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator

from benchmarks import tables
from benchmarks.runs import Training
from benchmarks.tables import Cell

SETTINGS = {
    "environment.num_envs": 4,
    "environment.step_seconds": 0.02,
    "algorithm.rollout_length": 20,
    "optimizer.kind": "rmsprop",  # Adam's momentum and many actors do not go together
    "optimizer.learning_rate": 3e-3,
    "scaling.thresholds_seconds": [1.0, 2.0, 3.0],
    "scaling.episodes_between": 150,
    "scaling.interval_seconds": 1.0,
    "exchange.expiry_seconds": 120.0,
    "limits.until_return": 1e9,
}
STARTING_SECONDS = 90.0
ADDITION = re.compile(r"scaling: mean episode ([\d.]+) s > ([\d.]+) s, (\d+) episodes .*: (\d+) -> (\d+) actors?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0)
    seconds = parser.parse_args().seconds
    tables.machine()
    arguments = ("--actors", "6..12", "--seconds", str(seconds))
    with Training("CartPole-v1", *arguments, label="growth", settings=SETTINGS) as training:
        result = training.finish(seconds + STARTING_SECONDS)
    columns = ("actors", "added", "mean episode s", "over s", "episodes since the last")
    tables.show("Additions, 6..12 actors", columns, additions(result.lines))
    held = sum("scaling: held" in line for line in result.lines)
    last = result.rows[-1]
    print(
        f"at the end: {last['actors']} actors, mean episode {last['episode_seconds']:.1f} s, "
        f"{last['episodes']:,} episodes; the load guard held {held} times"
    )


def additions(lines: Iterable[str]) -> Iterator[tuple[Cell, ...]]:
    """What the learner said of them."""
    for line in lines:
        if (match := ADDITION.search(line)) is not None:
            mean, over, since, before, after = match.groups()
            yield f"{before} -> {after}", int(after) - int(before), float(mean), float(over), int(since)


if __name__ == "__main__":
    main()
