"""What actors report of the loss, by these names on the wire, in the metrics and in the panel."""

from __future__ import annotations

from typing import NamedTuple


class Statistics(NamedTuple):
    """What one gradient was made of; means are over the valid steps."""

    policy_loss: float
    value_loss: float
    """Mean squared error, without its coefficient."""
    entropy: float
    """In nats."""
    gradient_norm: float
    """L2, before clipping."""
    ratio: float
    """Mean of pi / mu before clipping: 1 when the rollout was made by these weights."""
    kl: float
    """Mean of pi / mu - 1 - log(pi / mu), an estimate of how far the policy is from the one that acted, in nats
    (Schulman 2020, http://joschu.net/blog/kl-approx.html)."""
