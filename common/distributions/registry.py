"""From an action spec and a network's outputs to a distribution."""

from __future__ import annotations

from common.distributions.base import Distribution, Floats
from common.distributions.categorical import Categorical
from common.distributions.gaussian import Gaussian
from common.distributions.multi_categorical import MultiCategorical
from common.networks.action import ActionSpec


def distribution(spec: ActionSpec, outputs: Floats) -> Distribution:
    """The distribution of the actions of N states; `outputs` (N, spec.width) are what the network gave for them."""
    if spec.kind == "discrete":
        return Categorical(outputs)
    return Gaussian(spec, outputs) if spec.kind == "box" else MultiCategorical(spec, outputs)
