"""A fleet that grows from 6 to 12 actors as episodes become longer.

    python -m benchmarks growth [--seconds 150]

CartPole-v1 at a fixed pace with the default rule: 1 / 2 / 3 actors are added when the mean episode is 2 / 4 / 6 times
as long as the first ones; between additions lie at least 150 episodes (by default 1000). The table shows when and why
actors were added in one run. It does not show that growing beats starting with all of them: that would need runs with
fixed numbers.
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
    "scaling.episodes_between": 150,
    "exchange.expiry_seconds": 120.0,
    "limits.until_return": 1e9,
}
STARTING_SECONDS = 90.0
ADDITION = re.compile(
    r"scaling: mean episode ([\d.]+) x the first ones' (\d+) steps > ([\d.]+) x, (\d+) episodes .*"
    r": (\d+) -> (\d+) actors?"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0)
    seconds = parser.parse_args().seconds
    tables.machine()
    arguments = ("--actors", "6..12", "--seconds", str(seconds))
    with Training("CartPole-v1", *arguments, label="growth", settings=SETTINGS) as training:
        result = training.finish(seconds + STARTING_SECONDS)
    columns = ("actors", "added", "mean episode / first", "first, steps", "over", "episodes since the last")
    tables.show("Additions, 6..12 actors", columns, additions(result.lines))
    held = sum("scaling: held" in line for line in result.lines)
    last = result.rows[-1]
    print(
        f"at the end: {last['actors']} actors, mean episode {last['episode_length']:.0f} steps, "
        f"{last['episodes']:,} episodes; the load guard held {held} times"
    )


def additions(lines: Iterable[str]) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each addition in the learner's log."""
    for line in lines:
        if (match := ADDITION.search(line)) is not None:
            mean, first, over, since, before, after = match.groups()
            yield f"{before} -> {after}", int(after) - int(before), float(mean), int(first), float(over), int(since)


if __name__ == "__main__":
    main()
