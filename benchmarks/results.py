"""Presets trained to their end over seeds, then played without training: are they solved?

    python -m benchmarks results [--presets CartPole-v1,Acrobot-v1] [--seeds 0,1,2,3,4] [--seconds 600]
                                 [--episodes 100]

Each run is `a3cd train PRESET --seed S`, which ends as its preset says, or after --seconds. Its best weights then play
--episodes episodes that no actor was trained on, as `a3cd evaluate RUN` plays them. "evaluated" is the mean over the
seeds, with its 95 % interval (Student's t); "lowest" the worst seed's mean; "solved" how many seeds' means are at least
the return at which the environment is said to be solved. BipedalWalker-v3, which takes 8 minutes a seed, and
HalfCheetah-v5, whose extra (mujoco) is not in `all`, are measured only where --presets names them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

from benchmarks import tables
from benchmarks.runs import Training, evaluate
from benchmarks.tables import Cell
from common.errors import ConfigurationError
from common.rl.environments.make import make
from common.rl.episode_statistics import return_statistics
from common.run import presets

SOLVED = {
    "CartPole-v1": 475.0,
    "Acrobot-v1": -100.0,
    "MountainCar-v0": -110.0,
    "LunarLander-v3": 200.0,
    "Pendulum-v1": -200.0,
    "BipedalWalker-v3": 300.0,
    "HalfCheetah-v5": 3000.0,
    "FlappyBird-v0": None,
}
"""Gymnasium's `reward_threshold`; our own for Pendulum-v1, which has none, and HalfCheetah-v5 (gymnasium: 4,800)."""
APART = ("BipedalWalker-v3", "HalfCheetah-v5")
"""Measured only by name: the one takes 8 minutes a seed, the other's extra is not in `all`."""
STARTING_SECONDS = 120.0
"""For a run to begin and to end, besides --seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", default=",".join(name for name in SOLVED if name not in APART))
    parser.add_argument("--seeds", default="0,1,2,3,4", help="of the runs")
    parser.add_argument("--seconds", type=float, default=600.0, help="the longest run")
    parser.add_argument("--episodes", type=int, default=100)
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    names = given.presets.split(",")
    if lacking := missing(names):
        parser.error(lacking)
    tables.machine()
    rows = []
    for preset in names:
        runs = [measure(preset, seed, given.seconds, given.episodes) for seed in seeds]
        rows.append(row(preset, runs))
        tables.show(
            f"{len(seeds)} seeds, medians; {given.episodes} episodes each",
            ("", "frames", "seconds", "evaluated", "+-", "lowest", "solved"),
            rows,
        )


def missing(names: Sequence[str]) -> str:
    """What these presets need and is not there, for all of them; empty: nothing."""
    lacking = []
    for name in names:
        try:
            make(presets.show(name).settings().environment, num_envs=1, seed=0).close()
        except ConfigurationError as error:
            lacking.append(str(error))
    return "\n".join(lacking)


def measure(preset: str, seed: int, seconds: float, episodes: int) -> tuple[float, float, float]:
    """Frames, seconds from the command to its end, and the mean return afterwards."""
    arguments = ("--seed", str(seed), "--seconds", str(seconds), "--no-curve")
    with Training(preset, *arguments, label=f"{preset}, seed {seed}") as training:
        result = training.finish(seconds + STARTING_SECONDS)
        mean = evaluate(training.folder, episodes)["mean"]
        training.say(f"mean return {mean:.1f} over {episodes} episodes")
    return result.summary["frames"], result.seconds, mean


def row(preset: str, runs: Sequence[tuple[float, float, float]]) -> list[Cell]:
    """As the columns say."""
    frames, seconds, means = zip(*runs, strict=True)
    over, solved = return_statistics(means), SOLVED.get(preset)
    count = None if solved is None else f"{sum(mean >= solved for mean in means)} of {len(means)}"
    margin = None if over.high is None else over.high - over.mean
    return [preset, int(median(frames)), median(seconds), over.mean, margin, over.minimum, count]


if __name__ == "__main__":
    main()
