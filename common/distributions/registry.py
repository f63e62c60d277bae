"""From an action spec and a network's outputs to a distribution."""

from __future__ import annotations

from common.distributions.base import Distribution, Floats
from common.distributions.categorical import Categorical
from common.networks.action import ActionSpec

_KINDS = {"discrete": Categorical}


def distribution(spec: ActionSpec, outputs: Floats) -> Distribution:
    """The distribution of the actions of N states; `outputs` (N, spec.width) are what the network gave for them."""
    return _KINDS[spec.kind](outputs)
