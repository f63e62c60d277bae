"""Which numbers are normalised, and by what: statistics that the learner keeps and sends as extras."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.rl.moments import Moments

MAX_NORMALIZED = 10.0
"""Normalised observations are clipped to +-this."""
VARIANCE_FLOOR = 1e-8
"""Added to variances, so that a number that never changes becomes 0."""
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Normalization:
    """Which numbers are normalised, and the layout of the extras: means, then 1 / deviations, that of rewards last.

    A reward is divided by the deviation of the discounted sum of the rewards up to it in its episode (Engstrom et al.
    2020, https://arxiv.org/abs/2005.12729, section 3).
    """

    observations: int
    """Numbers of an observation; 0: observations are not normalised."""
    rewards: bool
    pixels: int = 0
    """Pixels of a picture (C * H * W) from which the background is subtracted; 0: none is."""

    @property
    def counted(self) -> int:
        """Numbers whose moments are kept: those of an observation, then the discounted sum of rewards."""
        return self.observations + self.rewards

    @property
    def size(self) -> int:
        """Length of `extras`."""
        return self.observations + self.counted

    def extras(self, moments: Moments | None = None) -> Floats:
        """Return float32 (size,) from the moments of `counted` numbers; without moments, extras that change nothing."""
        if not self.counted:
            return np.zeros(0, np.float32)
        if moments is None or not moments.count:
            deviations, means = np.ones(self.counted), np.zeros(self.observations)
        else:
            # A number that has never varied is left as it is: the first reward of a run would become ten thousand.
            varied, means = moments.variances > 0.0, moments.means[: self.observations]
            deviations = np.where(varied, 1 / np.sqrt(moments.variances + VARIANCE_FLOOR), 1.0)
        return np.concatenate([means, deviations]).astype(np.float32)

    @property
    def no_background(self) -> Floats:
        """The background that only divides by 255: a mean picture (pixels,), then 1 / the deviation from it."""
        return np.append(np.zeros(self.pixels), 1 / 255 if self.pixels else []).astype(np.float32)

    def background(self, extras: Floats) -> Floats:
        """Return the background in the extras, after the running statistics; a view."""
        return extras[self.size : self.size + self.no_background.size]

    def reward_scale(self, extras: Floats) -> float:
        return float(extras[self.size - 1]) if self.rewards else 1.0
