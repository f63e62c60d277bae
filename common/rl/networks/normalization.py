"""A network whose observations are normalised by running statistics."""

import torch
from torch import Tensor

from common.rl.networks.around import Around
from common.rl.networks.heads import PolicyValue
from common.rl.normalization import MAX_NORMALIZED


class Normalized(Around):
    """A network whose observations are normalised before it sees them."""

    def __init__(self, network: PolicyValue, extras: Tensor, numbers: int) -> None:
        """numbers: of an observation. extras: as `common.rl.normalization` has them; they may change in place."""
        super().__init__(network, "normalized")
        self.mean_and_scale = extras[: 2 * numbers].view(2, numbers)

    def features(self, observations: Tensor) -> Tensor:
        return self.inner.features(self._normalized(observations))

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        return self.inner.unroll(features, state, valid)

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.step(self._normalized(observations), state)

    def _normalized(self, observations: Tensor) -> Tensor:
        here = on_device(self.mean_and_scale, observations.device)
        mean, scale = here.view(2, *observations.shape[1:]).unbind()
        return ((observations - mean) * scale).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)


def on_device(statistics: Tensor, device: torch.device) -> Tensor:
    """As they are now. From memory that is not pinned a copy would wait for all that the device has to do before it."""
    if device.type == "cuda":
        statistics = statistics.pin_memory()  # a copy: the allocator gives it again only once it has gone up
    return statistics.to(device, non_blocking=True)
