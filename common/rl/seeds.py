"""Seeds of episodes that no actor trains on, since an agent is to be judged on others than those it was made by."""

from collections.abc import Iterator
from itertools import count
from typing import Literal

import numpy as np

Purpose = Literal["selection", "report"]
"""selection: episodes by which the best weights of a run are chosen. report: what is told of weights that are chosen,
on other episodes again, since the chosen ones were lucky in those of the selection."""
_KEYS: dict[Purpose, int] = {"selection": 1, "report": 2}
BITS = 128


def held_out_seeds(purpose: Purpose, *path: int) -> Iterator[int]:
    """Seeds for one batch of environments after the other; each path (numbers, 0 or more) has its own.

    They come of a spawn key that only this purpose has, and have 128 bits, the highest one set: actors' seeds have at
    most 63, so what is hashed from the two never has the same origin.
    """
    for number in count():
        sequence = np.random.SeedSequence(0, spawn_key=(_KEYS[purpose], *path, number))
        words = sequence.generate_state(BITS // 32, np.uint32).astype("<u4")
        yield int.from_bytes(words.tobytes(), "little") | 1 << (BITS - 1)
