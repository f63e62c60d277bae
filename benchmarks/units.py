"""What a conv network's dense units make of random play before training, with and without the background subtracted.

    python -m benchmarks units [--environments ALE/Pong-v5,ALE/Breakout-v5,ALE/SpaceInvaders-v5] [--seeds 0,1,2]

Of 250 pictures, four steps apart, a "dead" unit reacts to none, so that it has no gradient; one that is "always on"
reacts to all. "movement / background" compares what the pictures change in a unit's output with the output itself: the
standard deviation over the pictures by the mean, both averaged over units that are not dead. Medians over the seeds of
the network.
"""

from __future__ import annotations

import argparse
from itertools import islice
from statistics import median

import msgspec
import numpy as np
import torch

from benchmarks import tables
from benchmarks.tables import Cell
from common.rl.environments.make import make
from common.rl.environments.names import resolve
from common.rl.networks.model import build
from common.rl.networks.pictures import PictureTrunk
from common.run import presets
from common.settings.sections import Settings
from learner.background import background, random_play

ENVIRONMENTS = "ALE/Pong-v5,ALE/Breakout-v5,ALE/SpaceInvaders-v5"
PICTURES, APART = 250, 4
COLUMNS = ("environment", "pictures", "units", "dead", "always on", "movement / background")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default=ENVIRONMENTS)
    parser.add_argument("--seeds", default="0,1,2", help="of the network")
    given = parser.parse_args()
    tables.machine()
    rows: list[tuple[Cell, ...]] = []
    for name in given.environments.split(","):
        settings = presets.for_environment(name)
        settings = msgspec.structs.replace(settings, environment=resolve(settings.environment))
        rows += [row(name, settings, normalize, given.seeds.split(",")) for normalize in (False, True)]
    tables.show("Units of the dense layer", COLUMNS, rows)


def row(name: str, settings: Settings, normalize: bool, seeds: list[str]) -> tuple[Cell, ...]:
    network = msgspec.structs.replace(settings.network, normalize=normalize)
    found = [measured(msgspec.structs.replace(settings, network=network, seed=int(seed))) for seed in seeds]
    units, dead, always, movement = (median(column) for column in zip(*found, strict=True))
    return name, "less the background" if normalize else "divided by 255", units, dead, always, round(movement, 2)


def measured(settings: Settings) -> tuple[int, int, int, float]:
    """Return the units of a new network, how many are dead, how many always on, and movement / background."""
    batch = make(settings.environment, num_envs=1, seed=0)
    batch.close()
    model = build(settings, batch.observation, batch.action)
    if model.normalization.pixels:
        model.background[:] = background(settings.environment, settings.seed)
    played = random_play(settings.environment, settings.seed + 1, PICTURES * APART)
    pictures = np.stack([picture.copy() for picture in islice(played, 0, None, APART)])
    trunk = next(one for one in model.network.modules() if isinstance(one, PictureTrunk))
    with torch.no_grad():
        outputs = trunk(torch.from_numpy(pictures))
    reacts = (outputs > 0).float().mean(0)
    alive = outputs[:, reacts > 0]
    movement = float(alive.std(0).mean() / alive.mean())
    return len(reacts), int((reacts == 0).sum()), int((reacts == 1).sum()), movement


if __name__ == "__main__":
    main()
