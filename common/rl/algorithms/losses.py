"""What all losses share: their result, discounts, the squared error and normalised advantages.

A step has a weight: 1 / (number of valid steps) for a mean over the valid steps, 0 for a dummy step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.statistics import Statistics
from common.rl.rollout import Rollout

Floats = NDArray[np.float32]
Booleans = NDArray[np.bool_]


class Loss(NamedTuple):
    derivative: Floats
    """By the network's outputs, of their shape."""
    statistics: Statistics
    """gradient_norm is 0: it is not known yet."""


class Term(NamedTuple):
    value: float
    gradient: Floats
    """Derivative by the values (N,)."""


def discounts(rollout: Rollout, gamma: float) -> Floats:
    """Return discounts (T, B), 0 where the episode terminated."""
    return np.where(rollout.terminated, np.float32(0), np.float32(gamma))


def squared_error(values: Floats, targets: Floats, weights: Floats) -> Term:
    """Return sum(weight * (target - value)^2) and its derivative by the values; the targets are constants.

    Args:
        values: (N,).
        targets: (N,).
        weights: (N,).
    """
    assert values.shape == targets.shape == weights.shape, (values.shape, targets.shape, weights.shape)
    errors = values - targets
    weighted = weights * errors
    return Term(float(weighted @ errors), 2 * weighted)


def normalized(advantages: Floats, valid: Booleans) -> Floats:
    """Return advantages (T, B) with mean 0 and standard deviation 1 over the valid steps."""
    chosen = advantages[valid]
    if not len(chosen):
        return advantages
    # float(...) keeps the result float32.
    return (advantages - float(chosen.mean())) / (float(chosen.std()) + 1e-8)
