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


_NAMES = Statistics._fields


def known(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures of another host that count: those with a name of `Statistics`, finite and within MAX_FIGURE."""
    return {name: one for name in _NAMES if -MAX_FIGURE <= (one := figures.get(name, math.nan)) <= MAX_FIGURE}
