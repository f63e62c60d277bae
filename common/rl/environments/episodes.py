"""Returns and lengths of episodes, from the steps of a batch."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.rl.episode import Episode


class EpisodeTracker:
    """Adds up rewards and steps per environment, and knows which steps are dummies."""

    def __init__(self, count: int, now: float) -> None:
        """count: environments in the batch. now: time of their reset in seconds, of the same clock as in `update`."""
        self.valid: NDArray[np.bool_] = np.ones(count, np.bool_)
        """(B,): whether the next step counts, or is a dummy after an episode's end; a new array after every update."""
        self._returns = np.zeros(count, np.float64)
        self._steps = 0
        self._first_steps = np.zeros(count, np.int64)
        """(B,): steps of the batch before each episode began."""
        self._begun = np.full(count, now, np.float64)
        self._some_begin = False
        """Whether the next step resets an environment."""

    def update(
        self, rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], now: float
    ) -> Sequence[Episode]:
        """Add one step of the batch, arrays (B,), after which it is `now`; return the episodes that ended in it.

        Episodes with a reward that was not finite are left out.
        """
        self._steps += 1
        if self._some_begin:
            self._begun[~self.valid] = now
        with np.errstate(invalid="ignore"):
            self._returns += rewards  # of a dummy step: 0
        over = terminated | truncated
        self.valid = ~over
        self._some_begin = bool(np.count_nonzero(over))
        if not self._some_begin:
            return ()
        ended = np.flatnonzero(over)
        figures = self._returns[ended], self._steps - self._first_steps[ended], now - self._begun[ended]
        self._returns[ended] = 0.0
        self._first_steps[ended] = self._steps + 1
        rows = zip(*(column.tolist() for column in figures), strict=True)
        return [Episode(*row) for row in rows if math.isfinite(row[0])]
