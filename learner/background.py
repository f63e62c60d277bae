"""The background of an environment's pictures, which networks subtract: the mean picture of random play."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.distributions.registry import distribution
from common.rl.environments.make import make
from common.rl.moments import Moments
from common.settings.sections import Environment

FRAMES = 1000
"""About one game of Pong, or six of Breakout, in half a second."""


def background(section: Environment, seed: int) -> NDArray[np.float32]:
    """Return the mean picture (C * H * W), then 1 / the deviation of all pixels from it; raises as `random_play`.

    The deviation is at least 1, of values 0..255. The same seed gives the same background.
    """
    pictures = (Moments.from_rows(picture.reshape(1, -1)) for picture in random_play(section, seed, FRAMES))
    seen = reduce(Moments.merged, pictures)
    variance = float(seen.variances.mean())
    return np.append(seen.means, max(variance, 1.0) ** -0.5).astype(np.float32)


def random_play(section: Environment, seed: int, frames: int) -> Iterator[NDArray[Any]]:
    """Yield what one copy of the environment shows to an agent that draws its actions, each valid until the next.

    Raises as `make` and `step`.
    """
    batch, rng = make(section, num_envs=1, seed=seed), np.random.default_rng(seed)
    try:
        outputs = np.zeros((1, batch.action.width), np.float32)  # every action is as likely
        observations = batch.reset()
        for _ in range(frames):
            yield observations[0]
            observations = batch.step(distribution(batch.action, outputs).sample(rng)[0]).observations
    finally:
        batch.close()
