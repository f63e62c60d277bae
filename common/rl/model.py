"""A run's network, with its parameters in one vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.errors import ConfigurationError
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.networks import registry
from common.rl.networks.flat import FlatParameters, flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.normalization import Normalized
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Settings


@dataclass(frozen=True, eq=False)
class Model:
    """The network of a run; `flat` holds its parameters and their gradient."""

    network: PolicyValue
    flat: FlatParameters
    extras: NDArray[np.float32]
    """(E,): numbers that acting needs and no gradient changes; they travel with the parameters."""
    normalization: Normalization
    """The layout of the first of the extras."""
    target: Model | None = None
    """The target network, of algorithms that have one; the learner sets its parameters."""

    @property
    def statistics(self) -> NDArray[np.float32]:
        """Those of the normalization; a view."""
        return self.extras[: self.normalization.size]

    @property
    def frames(self) -> NDArray[np.float32]:
        """(1,), the last of the extras where there is a target network: frames of the run up to these weights."""
        return self.extras[-1:]

    @property
    def vectors(self) -> tuple[Tensor, ...]:
        """The parameters as they travel: the network's, then the target network's."""
        return (self.flat.vector,) if self.target is None else (self.flat.vector, self.target.flat.vector)

    def to(self, device: torch.device) -> Model:
        """This model with network and vectors on `device`; the old one must not be used any more."""
        target = None if self.target is None else self.target.to(device)
        return replace(self, flat=flatten(self.network.to(device)), target=target)


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> Model:
    """The model of a run; the same arguments give the same one on every host.

    Raises ConfigurationError where the network or the algorithm does not fit the observations or the actions.
    """
    values = METHODS[settings.algorithm.kind].has_target
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
    extras = np.concatenate([normalization.extras(), np.zeros(int(values), np.float32)])

    def one() -> Model:
        spec = replace(action, log_std=settings.network.log_std) if action.kind == "box" else action
        network = registry.build(settings.network, observation, spec, settings.seed)
        if normalization.observations:
            network = Normalized(network, torch.from_numpy(extras), normalization.observations)
        return Model(network, flatten(network), extras, normalization)

    return replace(one(), target=one()) if values else one()
