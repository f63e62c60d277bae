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
