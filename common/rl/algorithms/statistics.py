"""The figures of a loss; their names here are those on the wire, in the metrics and in the panel."""

import math
from collections.abc import Mapping
from typing import NamedTuple

MAX_FIGURE = 1e30
"""Larger figures of other hosts are not counted; sums of figures within it are finite."""


class Statistics(NamedTuple):
    """The figures of one gradient; means are over the valid steps."""

    policy_loss: float
    value_loss: float
    """Mean squared error, without its coefficient."""
    entropy: float
    """In nats."""
    gradient_norm: float
    """L2, before clipping."""
    ratio: float
    """Mean of pi / mu before clipping; 1 where these weights acted."""
    kl: float
    """Mean of pi / mu - 1 - log(pi / mu): an estimate of KL(mu, pi), where mu is the policy that acted, in nats
    (Schulman 2020, http://joschu.net/blog/kl-approx.html)."""
    explained_variance: float
    """1 - Var(target - value) / Var(target), -1 at least: 1 where the values are the targets but for a constant, 0
    where they tell nothing of them."""
    clip_fraction: float = 0.0
    """Of the steps, those whose ratio is beyond the clipping range; 0 in a loss without one."""


_NAMES = Statistics._fields


def known(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures of another host that count: those with a name of `Statistics`, finite and within MAX_FIGURE."""
    return {name: one for name in _NAMES if -MAX_FIGURE <= (one := figures.get(name, math.nan)) <= MAX_FIGURE}
