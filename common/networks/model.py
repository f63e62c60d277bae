"""A network with its parameters in one vector: what plays, what learns, and what the two ends of the wire compare."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from common.algorithms.registry import METHODS
from common.errors import ConfigurationError
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
    target: Model | None = None
    """Of the target network, for algorithms that learn values: its parameters are the learner's to set."""

    @property
    def frames(self) -> Tensor:
        """(1,), the last of the extras, with a target network: frames of the run when these weights were made."""
        return self.extras[-1:]

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """Of parameters, as they travel: the network's own first, then the target network's."""
        return (self.flat.vector,) if self.target is None else (self.flat.vector, self.target.flat.vector)

    def to(self, device: torch.device) -> Model:
        """This model with network and vectors on `device`; the one before must not be used any more."""
        target = None if self.target is None else self.target.to(device)
        return replace(self, flat=flatten(self.network.to(device)), target=target)


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> Model:
    """The model of a run; the same arguments give the same one on every host.

    Raises ConfigurationError as `common.networks.registry.build` does, and for an algorithm that learns the values of
    actions where these cannot be counted.
    """
    values = METHODS[settings.algorithm.kind].values
    if values and action.kind != "discrete":
        space = action.kind.title().replace("-", "")
        raise ConfigurationError(
            f'algorithm.kind = "{settings.algorithm.kind}" needs a Discrete action space, not {space}: it learns a '
            "value for each action"
        )
    model = _own(settings, observation, action)
    if not values:
        return model
    frames = torch.zeros(1)
    return replace(model, extras=torch.cat([model.extras, frames]), target=_own(settings, observation, action))


def _own(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> Model:
    if action.kind == "box":
        action = replace(action, spread=settings.network.spread)
    network = registry.build(settings.network, observation, action, settings.seed)
    return Model(network, flatten(network), torch.zeros(0))
