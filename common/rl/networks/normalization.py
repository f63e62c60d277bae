"""Normalises observations and rewards by running statistics; the learner keeps these and sends them as extras."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from common.rl.moments import Moments
from common.rl.networks.heads import PolicyValue

MAX_NORMALIZED = 10.0
"""Normalised observations are clipped to +-this."""
VARIANCE_FLOOR = 1e-8
"""Added to variances, so that a number that never changes becomes 0."""


@dataclass(frozen=True)
class Normalization:
    """Which numbers are normalised, and the layout of the extras: means, then 1 / deviations, those of rewards last.

    A reward is divided by the deviation of the discounted sum of the rewards up to it in its episode (Engstrom et al.
    2020, https://arxiv.org/abs/2005.12729, section 3).
    """

    observations: int
    """Numbers of an observation; 0: observations are not normalised."""
    rewards: bool

    @property
    def counted(self) -> int:
        """Numbers whose moments are kept: those of an observation, then the discounted sum of rewards."""
        return self.observations + self.rewards

    @property
    def size(self) -> int:
        """Numbers of `extras`."""
        return self.observations + self.counted

    def extras(self, moments: Moments | None = None) -> Tensor:
        """float32 (size,), from the moments of `counted` numbers; without moments those that change nothing."""
        if not self.counted:
            return torch.zeros(0)
        if moments is None or not moments.count:
            deviations, means = np.ones(self.counted), np.zeros(self.observations)
        else:
            deviations, means = 1 / np.sqrt(moments.variances + VARIANCE_FLOOR), moments.means[: self.observations]
        return torch.from_numpy(np.concatenate([means, deviations]).astype(np.float32))

    def reward_scale(self, extras: Tensor) -> float:
        return float(extras[self.size - 1]) if self.rewards else 1.0


class Normalized(PolicyValue):
    """A network whose observations are normalised before it sees them."""

    def __init__(self, network: PolicyValue, extras: Tensor, numbers: int) -> None:
        """numbers: of an observation. extras: as `Normalization` has them; they may change in place."""
        super().__init__()
        self.inner = network
        self.action = network.action
        self.chunk = network.chunk
        self.state_size = network.state_size
        self.architecture = f"normalized {network.architecture}"
        self._mean, self._scale = extras[:numbers], extras[numbers : 2 * numbers]

    def features(self, observations: Tensor) -> Tensor:
        return self.inner.features(self._normalized(observations))

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        return self.inner.unroll(features, state, valid)

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.step(self._normalized(observations), state)

    def _normalized(self, observations: Tensor) -> Tensor:
        mean, scale = (part.view(observations.shape[1:]).to(observations.device) for part in (self._mean, self._scale))
        return ((observations - mean) * scale).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)
