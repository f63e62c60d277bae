"""What an actor counts of its rollouts for the statistics that the learner keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import moments
from common.moments import Moments
from common.networks.normalization import Normalization


class Counting:
    """Observations that were acted on, and discounted sums of rewards, which go on from one rollout to the next."""

    def __init__(self, normalization: Normalization, discount: float, copies: int) -> None:
        """`discount` per step; `copies` environments."""
        self._normalization, self._discount = normalization, discount
        self._sums = np.zeros(copies)

    def restart(self) -> None:
        """New episodes begin in every copy."""
        self._sums.fill(0.0)

    def count(
        self, observations: NDArray[Any], rewards: NDArray[np.float32], valid: NDArray[np.bool_]
    ) -> Moments | None:
        """Of the valid steps of a rollout, in order; None where nothing is counted, or there is no such step.

        observations: (T, B, *shape). rewards: (T, B), as the environment gave them. valid: (T, B).
        """
        if not self._normalization.counted:
            return None
        sums = self._discounted(rewards, valid) if self._normalization.rewards else None
        if not valid.any():
            return None
        parts = []
        if self._normalization.observations:
            parts.append(moments.of(observations[valid].reshape(np.count_nonzero(valid), -1)))
        if sums is not None:
            parts.append(moments.of(sums[valid][:, np.newaxis]))
        means, squares = (np.concatenate(one) for one in zip(*((p.means, p.squares) for p in parts), strict=True))
        return Moments(parts[0].count, means, squares)

    def _discounted(self, rewards: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(T, B): after each step, the sum of its episode's rewards so far, each discounted by its age."""
        sums = np.empty(rewards.shape)
        for t, row in enumerate(rewards):
            # A step that is not valid begins an episode.
            self._sums = np.where(valid[t], self._discount * self._sums + row, 0.0)
            sums[t] = self._sums
        return sums
