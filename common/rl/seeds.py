"""Seeds of held-out episodes: no actor trains on them, so that an agent is judged on episodes it did not learn from."""

from collections.abc import Iterator
from itertools import count
from typing import Literal

import numpy as np

from common.errors import ConfigurationError

Purpose = Literal["selection", "report"]
"""selection: episodes by which the best weights of a run are chosen. report: other episodes, for the figures that are
reported of the chosen weights, since these were lucky in the episodes of the selection."""
_KEYS: dict[Purpose, int] = {"selection": 1, "report": 2}
BITS = 128


def held_out_seeds(purpose: Purpose, *path: int) -> Iterator[int]:
    """Return seeds, each for one batch of environments; each path (numbers, 0 or more) has its own sequence.

    They come from a spawn key that only this purpose has, and have 128 bits with the highest bit set. Actors' seeds
    have at most 63 bits, so no environment's seed is hashed from the same number here and in training.
    Raises ConfigurationError for a negative number.
    """
    if (least := min(path)) < 0:
        raise ConfigurationError(f"seed = {least}: must be 0 or more")
    return _seeds(_KEYS[purpose], *path)


def _seeds(*path: int) -> Iterator[int]:
    for number in count():
        sequence = np.random.SeedSequence(0, spawn_key=(*path, number))
        words = sequence.generate_state(BITS // 32, np.uint32).astype("<u4")
        yield int.from_bytes(words.tobytes(), "little") | 1 << (BITS - 1)
