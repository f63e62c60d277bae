"""Seeds for the environments of a batch."""

from __future__ import annotations

import numpy as np


def env_seed(seed: int, index: int) -> int:
    """The seed of one environment in the batch of the actor with `seed`; both 0 or more.

    Hashed from the pair, so that actors with neighbouring seeds share no episodes; 31 bits, which every environment
    takes (ALE reads a C int, and some seed numpy's legacy generator).
    """
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0] >> 1)
