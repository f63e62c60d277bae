"""Speed of one actor that plays and learns, compared with its environment alone: frames, memory, processor time.

    python -m benchmarks one_actor [--seconds 15] [--env CartPole-v1,FlappyBird-v0,ALE/Pong-v5]

One actor runs on one core and a learner on another (if there are two), with the preset's settings and an exchange of
gradients. Right after, the environment alone is stepped with random actions on the actor's core ("alone"); "share" is
the actor's speed relative to that.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks import tables
from benchmarks.environments import ours
from benchmarks.runs import Training, spent
from benchmarks.swarm import pin
from benchmarks.tables import Cell
from benchmarks.throughput import ENDLESS, rate
from common.run.presets import for_environment

COLUMNS = ("environment", "num_envs", "frames/s", "alone", "share", "MiB", "actor %", "learner %")
STARTING_SECONDS = 60.0
WARM_UP_GRADIENTS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="per environment")
    parser.add_argument("--env", default="CartPole-v1,FlappyBird-v0,ALE/Pong-v5")
    given = parser.parse_args()
    tables.machine()
    rows = [measure(env, given.seconds) for env in given.env.split(",")]
    tables.show("One actor on one core", COLUMNS, rows)


def measure(env: str, seconds: float) -> tuple[Cell, ...]:
    """Return a row of COLUMNS."""
    section = for_environment(env).environment
    with Training(env, "--actors", "1", label=env, settings=ENDLESS) as training:
        training.wait(STARTING_SECONDS, {"gradients": WARM_UP_GRADIENTS})
        (learner,), (actor,) = training.processes("learner"), training.processes("actor")
        cores = sorted(os.sched_getaffinity(0))
        pin(learner.pid, cores[0])
        pin(actor.pid, cores[-1])
        first, busy = training.rows()[-1], (spent(actor), spent(learner))
        begun = time.monotonic()
        time.sleep(seconds)
        elapsed, last = time.monotonic() - begun, training.rows()[-1]
        shares = [100 * (spent(one) - before) / elapsed for one, before in zip((actor, learner), busy, strict=True)]
        memory = actor.memory_info().rss / 2**20
    frames = rate(first, last, "frames")
    os.sched_setaffinity(0, {cores[-1]})
    alone = ours(section, section.num_envs, seconds / 3)
    os.sched_setaffinity(0, set(cores))
    return env, section.num_envs, frames, alone, frames / alone, memory, *shares


if __name__ == "__main__":
    main()
