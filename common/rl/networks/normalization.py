"""A network whose observations are normalised by running statistics."""

import torch
from torch import Tensor

from common.rl.networks.around import Around
from common.rl.networks.heads import PolicyValue
from common.rl.normalization import MAX_NORMALIZED


class Normalized(Around):
    """A network whose observations are normalised before it sees them."""

    def __init__(self, network: PolicyValue, extras: Tensor, numbers: int) -> None:
        """numbers: in an observation. extras: laid out by `common.rl.normalization`; they may change in place."""
        super().__init__(network, "normalized")
        self.mean_and_scale = extras[: 2 * numbers].view(2, numbers)
        self._there = self.mean_and_scale

    def renew(self, device: torch.device) -> None:
        """Take over the statistics as they are now, for passes on this device; a CPU always has those of now."""
        now = on_device(self.mean_and_scale, device)
        if self._there.device == now.device:
            self._there.copy_(now)  # at the same place, where a recorded pass reads them
        else:
            self._there = now

    def features(self, observations: Tensor) -> Tensor:
        return self.inner.features(self._normalized(observations))

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        return self.inner.unroll(features, state, valid)

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.step(self._normalized(observations), state)

    def _normalized(self, observations: Tensor) -> Tensor:
        mean, scale = self._there.view(2, *observations.shape[1:]).unbind()
        return ((observations - mean) * scale).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)


def on_device(statistics: Tensor, device: torch.device) -> Tensor:
    """Return the statistics, as they are now, on the device. Pinned, else the host would wait for the device."""
    if device.type == "cuda":
        statistics = statistics.pin_memory()  # a copy, which the allocator does not reuse before it is transferred
    return statistics.to(device, non_blocking=True)
