"""A network that gives no probability to actions that its observation forbids, in torch."""

import math

import torch
from torch import Tensor

from common.rl.action_masks import FORBIDDEN
from common.rl.networks.around import Around
from common.rl.networks.heads import PolicyValue
from common.rl.observation_spec import ObservationSpec


class Masked(Around):
    """Takes observations that end with an action mask; sets the policy's outputs to FORBIDDEN where the mask is 0."""

    def __init__(self, network: PolicyValue, seen: ObservationSpec) -> None:
        """seen: the spec of the observations that `network` takes."""
        super().__init__(network, "masked")
        self._seen = seen

    def features(self, observations: Tensor) -> Tensor:
        """Return features (N, F); with a recurrent network they end with the mask, for `unroll`."""
        seen, mask = split(self._seen, observations)
        features = self.inner.features(seen)
        return torch.cat([features, mask], dim=1) if self.state_size else mark(features, mask)

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        width = self.action.width
        return mark(self.inner.unroll(features[:, :-width], state, valid), features[:, -width:])

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        seen, mask = split(self._seen, observations)
        outputs, after = self.inner.step(seen, state)
        return mark(outputs, mask), after


def split(seen: ObservationSpec, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Do the same as `common.rl.action_masks.split`, but return the mask as numbers."""
    numbers = math.prod(seen.shape)
    observations = rows[:, :numbers].reshape(-1, *seen.shape)
    return observations.long() if seen.kind == "discrete" else observations, rows[:, numbers:]


def mark(outputs: Tensor, mask: Tensor) -> Tensor:
    """Return outputs (N, width + 1), FORBIDDEN where the mask (N, width) is 0; the derivative there is 0."""
    return torch.cat([torch.where(mask != 0, outputs[:, :-1], FORBIDDEN), outputs[:, -1:]], dim=1)
