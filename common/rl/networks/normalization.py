"""Observations and rewards by running statistics, which the learner keeps and sends with the weights as extras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from common.rl.moments import Moments
from common.rl.networks.heads import PolicyValue
from common.rl.networks.recurrent import Recurrent
from common.rl.networks.trunk import Trunk

LARGEST = 10.0
"""Normalised observations are clipped to +-this."""
LEAST_VARIANCE = 1e-8
"""Added to variances: a number that was always the same stays 0."""


@dataclass(frozen=True)
class Normalization:
    """Which numbers are counted, and where in the extras their statistics are: means, 1 / deviations, the rewards last.

    A reward is divided by the deviation of the discounted sum of the rewards up to it in its episode (Engstrom et al.
    2020, https://arxiv.org/abs/2005.12729, section 3).
    """

    observations: int
    """Numbers of an observation; 0: observations are left as they are."""
    rewards: bool

    @property
    def counted(self) -> int:
        """Numbers whose moments are kept: an observation's, then the discounted sum of rewards."""
        return self.observations + self.rewards

    @property
    def size(self) -> int:
        """Extras that are its own."""
        return self.observations + self.counted

    def extras(self, moments: Moments | None = None) -> Tensor:
        """float32; without moments, of which there are `counted`, those that change nothing."""
        if not self.counted:
            return torch.zeros(0)
        if moments is None or not moments.count:
            deviations, means = np.ones(self.counted), np.zeros(self.observations)
        else:
            deviations, means = 1 / np.sqrt(moments.variances + LEAST_VARIANCE), moments.means[: self.observations]
        return torch.from_numpy(np.concatenate([means, deviations]).astype(np.float32))

    def reward_scale(self, extras: Tensor) -> float:
        """What rewards are multiplied by."""
        return float(extras[self.size - 1]) if self.rewards else 1.0


class _Scaling:
    """Observations by the statistics in the extras, which may change in place."""

    def __init__(self, extras: Tensor, numbers: int) -> None:
        self._mean, self._scale = extras[:numbers], extras[numbers : 2 * numbers]

    def __call__(self, observations: Tensor) -> Tensor:
        """(N, *shape)."""
        mean, scale = (part.view(observations.shape[1:]).to(observations.device) for part in (self._mean, self._scale))
        return ((observations - mean) * scale).clamp_(-LARGEST, LARGEST)


class Normalized(PolicyValue):
    """A feed-forward network whose observations are normalised before it sees them."""

    def __init__(self, network: PolicyValue, scaling: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = network
        self.action, self.chunk = network.action, network.chunk
        self.architecture = f"normalized {network.architecture}"
        self._scaling = scaling

    def outputs(self, observations: Tensor) -> Tensor:
        """As `PolicyValue.outputs`."""
        return self.inner.outputs(self._scaling(observations))


class NormalizedTrunk(Trunk):
    """A recurrent network's trunk, likewise."""

    def __init__(self, trunk: Trunk, scaling: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self._scaling = trunk, scaling
        self.features, self.chunk, self.architecture = trunk.features, trunk.chunk, trunk.architecture

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F) of observations (N, *shape)."""
        features: Tensor = self.inner(self._scaling(observations))
        return features


def normalized(network: PolicyValue, extras: Tensor, numbers: int) -> PolicyValue:
    """The network, given its observations of `numbers` numbers by what `Normalization` has in the extras."""
    scaling = _Scaling(extras, numbers)
    if not isinstance(network, Recurrent):
        return Normalized(network, scaling)
    network.trunk = NormalizedTrunk(network.trunk, scaling)
    network.architecture = f"normalized {network.architecture}"
    return network
