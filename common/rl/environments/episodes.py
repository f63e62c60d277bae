"""Returns, lengths and durations of episodes, from the steps of a batch.

An episode's duration is its steps times the shortest step of the batch so far, or times the pace where that is longer.
Waiting for credit, for gradients, for the learner's actions or for a processor that others use is no part of it: a host
with too much to do does not look like an agent that lives long.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.rl.episode import Episode


class EpisodeTracker:
    """Adds up rewards and steps per environment, and knows which steps are dummies."""

    def __init__(self, count: int, pace: float = 0.0) -> None:
        """count: environments in the batch, which were reset. pace: least seconds from one step to the next."""
        self.valid: NDArray[np.bool_] = np.ones(count, np.bool_)
        """(B,): whether the next step counts, or is a dummy after an episode's end; a new array after every update."""
        self._returns = np.zeros(count, np.float64)
        self._steps = 0
        self._first_steps = np.zeros(count, np.int64)
        """(B,): steps of the batch before each episode began."""
        self._pace = pace
        self._shortest = math.inf
        """Seconds of the shortest step of the batch in which most environments played."""
        self._some_begin = False
        """Whether the next step resets an environment."""

    def update(
        self, rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], seconds: float
    ) -> Sequence[Episode]:
        """Add one step of the batch, arrays (B,), that took so many `seconds`; return the episodes that ended in it.

        Episodes with a reward that was not finite are left out.
        """
        self._steps += 1
        if not self._some_begin or 2 * np.count_nonzero(self.valid) > self.valid.size:  # a reset is no step
            self._shortest = min(self._shortest, seconds)
        with np.errstate(invalid="ignore"):
            self._returns += rewards  # of a dummy step: 0
        over = terminated | truncated
        self.valid = ~over
        self._some_begin = bool(np.count_nonzero(over))
        if not self._some_begin:
            return ()
        ended = np.flatnonzero(over)
        lengths = self._steps - self._first_steps[ended]
        figures = self._returns[ended], lengths, lengths * max(self._pace, self._shortest)
        self._returns[ended] = 0.0
        self._first_steps[ended] = self._steps + 1
        rows = zip(*(column.tolist() for column in figures), strict=True)
        return [Episode(*row) for row in rows if math.isfinite(row[0])]
