"""The figures of a loss; they have the same names here, on the wire, in the metrics and in the panel."""

import math
from collections.abc import Mapping
from typing import NamedTuple

MAX_FIGURE = 1e30
"""Larger figures from other hosts are not counted; sums of smaller ones are finite."""


class Statistics(NamedTuple):
    """The figures of one gradient; means are over the valid steps."""

    policy_loss: float
    value_loss: float
    """Mean squared error, without its coefficient."""
    entropy: float
    """Mean entropy of the policy, in nats."""
    gradient_norm: float
    """L2 norm of the gradient, before clipping."""
    ratio: float
    """Mean of pi / mu before clipping; 1 where these weights acted."""
    kl: float
    """Mean of pi / mu - 1 - log(pi / mu): an estimate of KL(mu, pi), where mu is the policy that acted, in nats
    (Schulman 2020, http://joschu.net/blog/kl-approx.html)."""
    explained_variance: float
    """1 - Var(target - value) / Var(target), -1 at least: 1 if the values equal the targets up to a constant, 0 if they
    explain nothing of them."""
    clip_fraction: float = 0.0
    """Fraction of the steps whose ratio is beyond the clipping range; 0 in a loss without one."""


_NAMES = Statistics._fields


def known(figures: Mapping[str, float]) -> dict[str, float]:
    """Return those figures from another host that count: named as in `Statistics`, finite, and within MAX_FIGURE."""
    return {name: one for name in _NAMES if -MAX_FIGURE <= (one := figures.get(name, math.nan)) <= MAX_FIGURE}
