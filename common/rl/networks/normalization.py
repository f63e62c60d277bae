"""A network whose observations are normalised by running statistics."""

import torch
from torch import Tensor

from common.rl.networks.around import Around
from common.rl.networks.heads import PolicyValue
from common.rl.networks.statistics import Statistics
from common.rl.normalization import MAX_NORMALIZED


class Normalized(Around):
    """A network whose observations are normalised before it sees them."""

    def __init__(self, network: PolicyValue, extras: Tensor, numbers: int) -> None:
        """numbers: in an observation. extras: laid out by `common.rl.normalization`; they may change in place."""
        super().__init__(network, "normalized")
        self.statistics = Statistics(extras[: 2 * numbers].view(2, numbers))
        """(2, numbers): means, and 1 / deviations."""

    def features(self, observations: Tensor) -> Tensor:
        return self.inner.features(self._normalized(observations))

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        return self.inner.unroll(features, state, valid)

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.step(self._normalized(observations), state)

    def _normalized(self, observations: Tensor) -> Tensor:
        mean, scale = self.statistics.there.view(2, *observations.shape[1:]).unbind()
        return ((observations - mean) * scale).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)
