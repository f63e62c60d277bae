"""Memory of a learner and its actors over time with a dense network, and the cost of waiting actors.

    python -m benchmarks memory [--actors 40] [--minutes 10] [--every 30]

CartPole-v1 at a pace that forty actors keep on two cores. RSS counts shared libraries in every process, PSS divides
them among the processes that share them (only Linux reports it), USS is the memory that the process's end would free.
The sums are over the learner and all actors. The first sample is taken when all actors have joined. Processor time is
that of all actors: at their pace, and while their learner is stopped and they can only wait for it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence

import psutil

from benchmarks import tables
from benchmarks.runs import RunFailedError, Training, spent

SETTINGS = {
    "environment.num_envs": 4,
    "environment.step_seconds": 0.03,
    "algorithm.rollout_length": 20,
    "exchange.expiry_seconds": 120.0,
    "limits.until_return": 1e9,
    "limits.frames": 1_000_000_000,
}
ACTOR_START_SECONDS = 10.0
"""Longest start per actor."""
MIB = 2**20
KINDS = (
    "learner RSS",
    "learner USS",
    "actor RSS, mean",
    "actor USS, mean",
    "actor USS, largest",
    "sum of RSS",
    "sum of PSS",
    "sum of USS",
)
STOPPED_SECONDS = 10.0
SETTLING_SECONDS = 5.0
"""Time after which the actors of a stopped learner have used up their credit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds")
    arguments = parser.parse_args()
    tables.machine()
    samples, playing, waiting = measure(arguments.actors, 60.0 * arguments.minutes, arguments.every)
    rows = [
        (kind, series[0], series[-1], max(series), series[-1] - series[0])
        for kind, series in zip(KINDS, zip(*samples, strict=True), strict=True)
    ]
    title = f"Memory in MiB, {arguments.actors} actors, {arguments.minutes:g} minutes"
    tables.show(title, ("", "first", "last", "max", "growth"), rows)
    pace = f"playing, {SETTINGS['environment.step_seconds']} s a step"
    shares = [(pace, 100 * playing), ("waiting for a stopped learner", 100 * waiting)]
    tables.show(f"Processor time of {arguments.actors} actors", ("", "% of a core"), shares)


def measure(actors: int, seconds: float, every: float) -> tuple[list[tuple[float, ...]], float, float]:
    """Return samples of KINDS, in MiB, and all actors' processor seconds per second while playing and while waiting."""
    settings = SETTINGS | {"scaling.minimum": actors, "scaling.maximum": actors}
    with Training("CartPole-v1", label="memory", settings=settings) as training:
        _wait_for(training, actors)
        (learner,), playing = training.processes("learner"), training.processes("actor")
        samples = []
        begun, before = time.monotonic(), _spent(playing)
        while (now := time.monotonic()) < begun + seconds + every / 2:
            if training.command.succeeded():
                training.command.fail("ended before its time")
            samples.append(_sample(learner, playing))
            training.say(", ".join(f"{kind} {mib:.1f}" for kind, mib in zip(KINDS, samples[-1], strict=True)))
            time.sleep(max(0.0, now + every - time.monotonic()))
        busy = (_spent(playing) - before) / (time.monotonic() - begun)
        learner.suspend()
        time.sleep(SETTLING_SECONDS)
        before = _spent(playing)
        time.sleep(STOPPED_SECONDS)
        idle = (_spent(playing) - before) / STOPPED_SECONDS
        learner.resume()
    return samples, busy, idle


def _wait_for(training: Training, actors: int) -> None:
    limit = time.monotonic() + ACTOR_START_SECONDS * (actors + 3)
    while not (rows := training.rows()) or rows[-1]["actors"] < actors:
        if training.command.succeeded() or time.monotonic() > limit:
            raise RunFailedError(f"not all of {actors} actors have joined")
        time.sleep(1.0)
    training.say(f"{actors} actors have joined")


def _sample(learner: psutil.Process, actors: Sequence[psutil.Process]) -> tuple[float, ...]:
    own, theirs = _memory(learner), [_memory(actor) for actor in actors]
    rss, _, uss = zip(*theirs, strict=True)
    sums = (sum(one) for one in zip(own, *theirs, strict=True))
    return own[0], own[2], statistics.mean(rss), statistics.mean(uss), max(uss), *sums


def _memory(process: psutil.Process) -> tuple[float, float, float]:
    """Return RSS, PSS (NaN where it is not reported) and USS, in MiB."""
    memory = process.memory_full_info()
    return memory.rss / MIB, getattr(memory, "pss", math.nan) / MIB, memory.uss / MIB


def _spent(processes: Sequence[psutil.Process]) -> float:
    return sum(spent(process) for process in processes)


if __name__ == "__main__":
    main()
