"""Episodes put together from the steps of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.rl.episode import Episode


class EpisodeTracker:
    """Adds up rewards and steps per copy, and knows which steps count."""

    def __init__(self, count: int, now: float) -> None:
        """count: copies in the batch. now: time of their reset in seconds, of the clock `update` is given."""
        self.valid: NDArray[np.bool_] = np.ones(count, np.bool_)
        """(B,): whether the next step counts; False for copies whose last step ended an episode, which it resets.

        A new array after every update, which the caller may keep.
        """
        self._returns = np.zeros(count, np.float64)
        self._steps = 0
        self._first_steps = np.zeros(count, np.int64)
        """Steps of the batch before each copy's episode began."""
        self._begun = np.full(count, now, np.float64)
        self._some_begin = False
        """Whether the next step resets a copy."""

    def update(
        self,
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        now: float,
    ) -> Sequence[Episode]:
        """Takes in one step of the batch, three arrays of shape (B,); returns the episodes that ended in it.

        Left out are those with a reward that was not finite.
        now: when the step had been taken, in seconds.
        """
        self._steps += 1
        if self._some_begin:
            self._begun[~self.valid] = now
        with np.errstate(invalid="ignore"):
            self._returns += rewards  # of a dummy step: 0
        ended = terminated | truncated
        self.valid = ~ended
        self._some_begin = bool(np.count_nonzero(ended))
        return self._finish(np.flatnonzero(ended), now) if self._some_begin else ()

    def _finish(self, copies: NDArray[np.intp], now: float) -> list[Episode]:
        returns = self._returns[copies]
        lengths = self._steps - self._first_steps[copies]
        seconds = now - self._begun[copies]
        self._returns[copies] = 0.0
        self._first_steps[copies] = self._steps + 1
        finite = np.isfinite(returns)
        figures = zip(returns[finite].tolist(), lengths[finite].tolist(), seconds[finite].tolist(), strict=True)
        return [Episode(*values) for values in figures]
