"""A network with its parameters in one vector: what plays, what learns, and what the two ends of the wire compare."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from common.errors import ConfigurationError
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS, ValueMethod
from common.rl.networks import registry
from common.rl.networks.flat import FlatParameters, flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.normalization import Normalization, normalized
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Settings


@dataclass(frozen=True, eq=False)
class Model:
    """The network of a run; `flat` holds its parameters and their gradient."""

    network: PolicyValue
    flat: FlatParameters
    extras: Tensor
    """float32 (E,) on the CPU: what acting needs besides parameters and no gradient changes; it travels with them."""
    normalization: Normalization
    """What is in the first of the extras."""
    target: Model | None = None
    """Of the target network, for algorithms that learn values: its parameters are the learner's to set."""

    @property
    def statistics(self) -> Tensor:
        """The extras of the normalization."""
        return self.extras[: self.normalization.size]

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

    Raises ConfigurationError as `common.rl.networks.registry.build` does, for an algorithm that learns the values of
    actions where these cannot be counted, and for network.normalize where observations are no box.
    """
    values = isinstance(METHODS[settings.algorithm.kind], ValueMethod)
    if values and action.kind != "discrete":
        space = action.kind.title().replace("-", "")
        raise ConfigurationError(
            f'algorithm.kind = "{settings.algorithm.kind}" needs a Discrete action space, not {space}: it learns a '
            "value for each action"
        )
    if settings.network.normalize and observation.kind != "box":
        raise ConfigurationError(
            f"network.normalize = true is for observations of numbers (box), not {observation.kind}: use false"
        )
    normalization = Normalization(
        observation.size if settings.network.normalize else 0, settings.environment.reward_normalize
    )
    extras = torch.cat([normalization.extras(), torch.zeros(int(values))])

    def one() -> Model:
        spec = replace(action, spread=settings.network.log_std) if action.kind == "box" else action
        network = registry.build(settings.network, observation, spec, settings.seed)
        if normalization.observations:
            network = normalized(network, extras, normalization.observations)
        return Model(network, flatten(network), extras, normalization)

    return replace(one(), target=one()) if values else one()
