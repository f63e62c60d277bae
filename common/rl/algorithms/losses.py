"""What all losses share: their result, discounts and the squared error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.statistics import Statistics
from common.rl.rollout import Rollout

Floats = NDArray[np.float32]
Booleans = NDArray[np.bool_]


class Loss(NamedTuple):
    """The loss of a rollout."""

    derivative: Floats
    """By the network's outputs, of their shape."""
    statistics: Statistics
    """gradient_norm is 0: it is not known yet."""


def discounts(rollout: Rollout, gamma: float) -> Floats:
    """Return discounts (T, B), 0 where the episode terminated."""
    return np.where(rollout.terminated.numpy(), np.float32(0), np.float32(gamma))


def squared_error(values: Floats, targets: Floats, weights: Floats) -> tuple[float, Floats]:
    """Return sum(weight * (target - value)^2) and its derivative by the values; all (N,), the targets constants.

    weights: 1 / (number of valid steps) for a mean over the valid steps, 0 for a dummy step.
    """
    assert values.shape == targets.shape == weights.shape, (values.shape, targets.shape, weights.shape)
    errors = values - targets
    weighted = weights * errors
    return float(weighted @ errors), 2 * weighted
