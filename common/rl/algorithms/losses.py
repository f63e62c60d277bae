"""What losses are made of. A step counts with its weight: 1 / (number of valid steps) for a mean over those, 0 for a
dummy step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.statistics import Statistics
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

Floats = NDArray[np.float32]
Booleans = NDArray[np.bool_]

LARGEST_LOG_RATIO = 20.0
"""Of pi / mu: beyond this a ratio is clipped anyway, and exp of it would overflow."""


class Loss(NamedTuple):
    """The loss of a rollout."""

    derivative: Floats
    """By the network's outputs, of their shape."""
    statistics: Statistics
    """Without the norm of the gradient, which is not known yet: 0."""


class Term(NamedTuple):
    """One term of a loss."""

    value: float
    gradient: Floats
    """Derivative by the values (N,)."""


def discounts(rollout: Rollout, section: Algorithm) -> Floats:
    """Return discounts (T, B), 0 where the episode terminated."""
    return np.where(rollout.terminated.numpy(), np.float32(0), np.float32(section.gamma))


def squared_error(values: Floats, targets: Floats, weights: Floats) -> Term:
    """Return sum(weight * (target - value)^2), and its derivative by the values; the targets are constants.

    Args:
        values: (N,).
        targets: (N,).
        weights: (N,).
    """
    errors = values - targets
    weighted = weights * errors
    return Term(float(weighted @ errors), 2 * weighted)


def normalized(advantages: Floats, valid: Booleans) -> Floats:
    """Return advantages (T, B) with mean 0 and spread 1 over the valid steps."""
    chosen = advantages[valid]
    if not len(chosen):
        return advantages
    # float(...) keeps the result float32.
    return (advantages - float(chosen.mean())) / (float(chosen.std()) + 1e-8)
