"""Resident memory of the learner and of its actors over time, dense network.

    python -m benchmarks memory [--actors 40] [--minutes 10] [--every 30]

CartPole-v1 at a pace that forty actors keep on two cores. RSS counts shared libraries in every process, USS only what
would be free if the process ended. The first sample is taken when all actors have joined.
"""

from __future__ import annotations

import argparse
import statistics
import time

import psutil

from benchmarks import tables
from benchmarks.runs import RunFailedError, Training

SETTINGS = {
    "environment.num_envs": 4,
    "environment.step_seconds": 0.03,
    "algorithm.rollout_length": 20,
    "exchange.expiry_seconds": 120.0,
    "limits.until_return": 1e9,
    "limits.frames": 1_000_000_000,
}
ACTOR_START_SECONDS = 10.0
"""Longest per actor."""
MIB = 2**20
KINDS = ("learner RSS", "learner USS", "actor RSS, mean", "actor USS, mean", "actor USS, largest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds")
    arguments = parser.parse_args()
    tables.machine()
    samples = measure(arguments.actors, 60.0 * arguments.minutes, arguments.every)
    rows = [
        (kind, series[0], series[-1], max(series), series[-1] - series[0])
        for kind, series in zip(KINDS, zip(*samples, strict=True), strict=True)
    ]
    title = f"Memory in MiB, {arguments.actors} actors, {arguments.minutes:g} minutes, {len(samples)} samples"
    tables.show(title, ("", "first", "last", "max", "growth"), rows)


def measure(actors: int, seconds: float, every: float) -> list[tuple[float, ...]]:
    """Samples as KINDS says, in MiB."""
    settings = SETTINGS | {"scaling.minimum": actors, "scaling.maximum": actors}
    with Training("CartPole-v1", label="memory", settings=settings) as training:
        _wait_for(training, actors)
        samples = []
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end + every / 2:
            if training.command.succeeded():
                training.command.fail("ended before its time")
            samples.append(_sample(training))
            training.say(", ".join(f"{kind} {mib:.1f}" for kind, mib in zip(KINDS, samples[-1], strict=True)))
            time.sleep(max(0.0, now + every - time.monotonic()))
    return samples


def _wait_for(training: Training, actors: int) -> None:
    limit = time.monotonic() + ACTOR_START_SECONDS * (actors + 3)
    while not (rows := training.rows()) or rows[-1]["actors"] < actors:
        if training.command.succeeded() or time.monotonic() > limit:
            raise RunFailedError(f"not all of {actors} actors have joined")
        time.sleep(1.0)
    training.say(f"{actors} actors have joined")


def _sample(training: Training) -> tuple[float, ...]:
    (learner,) = training.processes("learner")
    actors = [_memory(actor) for actor in training.processes("actor")]
    rss, uss = zip(*actors, strict=True)
    return *_memory(learner), statistics.mean(rss), statistics.mean(uss), max(uss)


def _memory(process: psutil.Process) -> tuple[float, float]:
    memory = process.memory_full_info()
    return memory.rss / MIB, memory.uss / MIB


if __name__ == "__main__":
    main()
