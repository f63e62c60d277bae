"""A network with its parameters in one vector: what plays, what learns, and what the two ends of the wire compare."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from common.networks import registry
from common.networks.action import ActionSpec
from common.networks.flat import FlatParameters, flatten
from common.networks.heads import PolicyValue
from common.networks.observation import ObservationSpec
from common.settings.sections import Settings


@dataclass(frozen=True, eq=False)
class Model:
    """The network of a run; `flat` holds its parameters and their gradient."""

    network: PolicyValue
    flat: FlatParameters
    extras: Tensor
    """float32 (E,): what the network needs besides its parameters and no gradient changes; it travels with them."""

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """Of parameters, as they travel: the network's own first."""
        return (self.flat.vector,)

    def to(self, device: torch.device) -> Model:
        """This model with network and vectors on `device`; the one before must not be used any more."""
        if device.type == "cpu":
            return self
        return replace(self, flat=flatten(self.network.to(device)))


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> Model:
    """The model of a run; the same arguments give the same one on every host.

    Raises ConfigurationError as `common.networks.registry.build` does.
    """
    if action.kind == "box":
        action = replace(action, spread=settings.network.spread)
    network = registry.build(settings.network, observation, action, settings.seed)
    return Model(network, flatten(network), torch.zeros(0))
