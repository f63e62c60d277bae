"""Memory, threads and descriptors of a learner and a launcher while actors come and go.

    python -m benchmarks soak [--minutes 60] [--every 4]

Six actors train CartPole-v1 without a goal, two from a launcher and four started by hand. Every few seconds one of the
four is ended, alternately by SIGTERM and SIGKILL, and started again. The first sample is taken after a minute.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time

import psutil

from benchmarks import tables
from benchmarks.crew import Crew
from benchmarks.runs import RunFailedError

CONFIG = """
[environment]
id = "CartPole-v1"
num_envs = 8
step_seconds = 0.1
[scaling]
minimum = 2
maximum = 2
[exchange]
expiry_seconds = 30.0
"""
SAMPLE_SECONDS = 20.0
WARM_UP_SECONDS = 60.0
MIB = 2**20
FIGURES = ("RSS MiB", "threads", "descriptors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two ends of an actor")
    given = parser.parse_args()
    tables.machine()
    ended, samples, unexpected = soak(60.0 * given.minutes, given.every)
    rows = []
    for name in ("learner", "launcher-0"):
        for figure, values in zip(FIGURES, zip(*(sample[name] for sample in samples), strict=True), strict=True):
            half = len(values) // 2
            late, early = (sum(part) / len(part) for part in (values[half:], values[:half]))
            rows.append((f"{name}, {figure}", values[0], values[-1], max(values), late - early))
    print(f"{ended} actors ended, {len(samples)} samples")
    tables.show(
        f"Actors ended for {given.minutes:g} minutes",
        ("", "first", "last", "most", "mean of the second half - first half"),
        rows,
    )
    for text in unexpected:
        print(f"unexpected: {text}")
    sys.exit(bool(unexpected))


def soak(seconds: float, every: float) -> tuple[int, list[dict[str, tuple[float, ...]]], list[str]]:
    """Return the number of actors ended, samples of FIGURES by daemon, and unexpected ends."""
    chance = random.Random(0)
    with Crew(CONFIG, launchers=(2,), by_hand=4) as crew:
        begun = time.monotonic()
        sample_due, end_due, ended = begun + WARM_UP_SECONDS, begun + 10.0, 0
        samples: list[dict[str, tuple[float, ...]]] = []
        while (now := time.monotonic()) < begun + seconds:
            crew.look()
            if now >= end_due:
                end_due = now + every
                ended += 1
                actor = crew.members[f"by-hand-{chance.randrange(4)}"]
                actor.signal(signal.SIGKILL if ended % 2 else signal.SIGTERM)
            if now >= sample_due:
                sample_due = now + SAMPLE_SECONDS
                samples.append({name: _figures(crew.members[name].process) for name in ("learner", "launcher-0")})
                print(f"{now - begun:.0f} s, {ended} ended, {samples[-1]}", file=sys.stderr, flush=True)
            time.sleep(0.1)
        if len(samples) < 2:
            raise RunFailedError("too short: no two samples")
        return ended, samples, crew.unexpected


def _figures(process: psutil.Process) -> tuple[float, ...]:
    return process.memory_info().rss / MIB, process.num_threads(), process.num_fds()


if __name__ == "__main__":
    main()
