"""What all losses share: their result, discounts, the squared error and normalised advantages.

A step has a weight: 1 / (number of valid steps) for a mean over the valid steps, 0 for a dummy step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl import arrays
from common.rl.algorithms.statistics import Statistics
from common.rl.arrays import Array
from common.rl.rollout import Rollout

Floats = NDArray[np.float32]
Booleans = NDArray[np.bool_]


class Loss(NamedTuple):
    derivative: Array
    """The derivative with respect to the network's outputs, of their shape."""
    statistics: Statistics
    """gradient_norm is 0: it is not known yet."""


class Term(NamedTuple):
    value: float
    gradient: Array
    """The derivative with respect to the values (N,)."""


def discounts(rollout: Rollout, gamma: float) -> Array:
    """Return discounts (T, B), 0 where the episode terminated."""
    return arrays.of(rollout.terminated).kept(~rollout.terminated, gamma)


def squared_error(values: Array, targets: Array, weights: Array) -> Term:
    """Return sum(weight * (target - value)^2) and its derivative; the targets are constants.

    Args:
        values: (N,).
        targets: (N,).
        weights: (N,).
    """
    assert values.shape == targets.shape == weights.shape, (values.shape, targets.shape, weights.shape)
    errors = values - targets
    weighted = weights * errors
    return Term(arrays.of(weighted).number(weighted @ errors), 2 * weighted)


def explained_variance(values: Array, targets: Array, weights: Array) -> float:
    """Return the share of the targets' variance that the values explain, -1 at least; all are (N,)."""
    on = arrays.of(values)
    left = _variance(targets - values, weights) / (_variance(targets, weights) + 1e-8)
    explained: float = on.number(1 - on.clipped(left, None, 2.0))
    return explained


def _variance(x: Array, weights: Array) -> Array:
    """Return the variance over the valid steps."""
    centred = x - weights @ x
    return weights @ (centred * centred)


def normalized(advantages: Array, weights: Array) -> Array:
    """Return advantages (T, B), standardised over the valid steps. weights: (T B,), of the steps in a mean."""
    centred = advantages - weights @ advantages.ravel()
    return centred / ((weights @ centred.ravel() ** 2) ** 0.5 + 1e-8)
