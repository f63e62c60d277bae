"""Steps per second of each kind of batch, compared with gymnasium's SyncVectorEnv.

    python -m benchmarks environments [--seconds S] [--num-envs N]

One process, one thread, random actions, resets included. `us` is the time of a step of the batch, `one copy` is a batch
of one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks import tables
from benchmarks.tables import Cell
from common.host.modules import bare
from common.rl.environments.actions import ActionMap
from common.rl.environments.episodes import EpisodeTracker
from common.rl.environments.make import make
from common.rl.environments.names import find_spec, resolve
from common.rl.environments.quiet import quiet
from common.settings.sections import Environment

SECTIONS = (
    Environment(id="CartPole-v1"),
    Environment(id="CartPole-v1", frame_stack=4),
    Environment(id="CartPole-v1", frame_skip=2),
    Environment(id="CartPole-v1", observation="frames"),
    Environment(id="FlappyBird-v0"),
    Environment(id="FlappyBird-v0", observation="frames"),
    Environment(id="FlappyBird-v0", observation="frames", frame_skip=4),
    Environment(id="Acrobot-v1"),
    Environment(id="MountainCar-v0"),
    Environment(id="FrozenLake-v1"),
    Environment(id="ALE/Pong-v5"),
    Environment(id="ALE/Breakout-v5"),
)


def steps_per_second(step: Callable[[NDArray[np.int64]], Any], actions: int, num_envs: int, seconds: float) -> float:
    """Return steps of single environments per second: batch steps times num_envs."""
    choices = np.random.default_rng(0).integers(actions, size=(1024, num_envs))
    for row in choices[:10]:
        step(row)
    taken, begun = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        step(choices[taken % 1024])
        taken += 1
    return taken * num_envs / elapsed


def ours(section: Environment, num_envs: int, seconds: float) -> float:
    environments = make(section, num_envs=num_envs, seed=0)
    environments.reset()
    rate = steps_per_second(environments.step, environments.action.width, num_envs, seconds)
    environments.close()
    return rate


def gymnasiums(section: Environment, num_envs: int, seconds: float) -> float | None:
    """Return the rate of gymnasium's SyncVectorEnv; None where it has no equivalent of `section`."""
    section = resolve(section)
    if section.observation == "frames" or section.frame_skip > 1 or section.frame_stack > 1:
        return None
    find_spec(section.id)
    with quiet():
        options: dict[str, Any] = dict(section.options)
        vector = gymnasium.make_vec(bare(section.id), num_envs, vectorization_mode="sync", **options)
    vector.reset(seed=0)
    rate = steps_per_second(vector.step, ActionMap(vector.single_action_space).spec.width, num_envs, seconds)
    vector.close()
    return rate


def tracker_microseconds(num_envs: int, seconds: float) -> float:
    """Return the time of EpisodeTracker.update when no episode ends."""
    tracker = EpisodeTracker(num_envs)
    rewards, nothing = np.ones(num_envs, np.float32), np.zeros(num_envs, np.bool_)
    rate = steps_per_second(lambda _: tracker.update(rewards, nothing, nothing, 0.0), 2, num_envs, seconds)
    return 1e6 * num_envs / rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--num-envs", type=int, default=16)
    arguments = parser.parse_args()
    num_envs, seconds = arguments.num_envs, arguments.seconds
    tables.machine()
    rows: list[tuple[Cell, ...]] = []
    for section in SECTIONS:
        settings = "".join(
            f" {key}={value}" for key in ("frame_skip", "frame_stack") if (value := getattr(section, key))
        )
        frames = " frames" if section.observation == "frames" else ""
        batch, single = ours(section, num_envs, seconds), ours(section, 1, seconds)
        sync = gymnasiums(section, num_envs, seconds)
        rows.append((section.id + frames + settings, batch, 1e6 * num_envs / batch, single, sync))
    tables.show(f"{num_envs} copies", ("environment", "steps/s", "us", "one copy", "sync"), rows)
    print(f"EpisodeTracker.update, nothing ended: {tracker_microseconds(num_envs, seconds):.1f} us")


if __name__ == "__main__":
    main()
