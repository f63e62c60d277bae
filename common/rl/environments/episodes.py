"""Returns, lengths and durations of episodes, from the steps of a batch.

An episode's duration is its steps times the shortest step of the batch so far, or times the pace if that is longer.
It does not include waiting for credit, for gradients, for the learner's actions or for a busy processor: an overloaded
host must not look like an agent that survives for long.
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
        """(B,): whether the next step counts, or is a dummy after an episode's end; never changed in place."""
        self._all = self.valid
        self._returns = [0.0] * count
        """Python's numbers: with the few environments of a batch they add up faster than an array, and never warn."""
        self._steps = 0
        self._first_steps = [0] * count
        """Steps of the batch before each episode began."""
        self._pace = pace
        self._shortest = math.inf
        """Seconds of the shortest step of the batch in which most environments played."""
        self._some_begin = False
        """Whether the next step resets an environment."""

    def update(
        self, rewards: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], seconds: float
    ) -> Sequence[Episode]:
        """Add one step of the batch, arrays (B,), which took `seconds`; return the episodes that ended in it.

        Episodes with a reward that was not finite are left out.
        """
        self._steps += 1
        if not self._some_begin or 2 * np.count_nonzero(self.valid) > self.valid.size:  # resets are no steps
            self._shortest = min(self._shortest, seconds)
        returns = self._returns
        if self._some_begin:  # a dummy step has no reward, whatever the environment gives there
            rewards = np.where(self.valid, rewards, np.float32(0))
        for index, reward in enumerate(rewards.tolist()):
            returns[index] += reward
        self._some_begin = bool(np.count_nonzero(terminated) or np.count_nonzero(truncated))
        if not self._some_begin:
            self.valid = self._all
            return ()
        over = terminated | truncated
        self.valid = ~over
        return [episode for index in np.flatnonzero(over).tolist() if (episode := self._end(index)) is not None]

    def _end(self, index: int) -> Episode | None:
        """Return the episode that ended in environment `index`; None if its return is not finite."""
        total, length = self._returns[index], self._steps - self._first_steps[index]
        self._returns[index], self._first_steps[index] = 0.0, self._steps + 1
        seconds = length * max(self._pace, self._shortest)
        return Episode(total, length, seconds) if math.isfinite(total) else None
