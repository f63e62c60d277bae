"""The algorithms by name, and what the daemons need to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.algorithms import a3c
from common.algorithms.losses import Floats, Loss
from common.algorithms.rollout import Rollout
from common.networks.action import ActionSpec
from common.settings.sections import Algorithm


@dataclass(frozen=True)
class Method:
    """One algorithm."""

    loss: Callable[[Floats, Rollout, Algorithm, ActionSpec], Loss]
    """Of the network's outputs ((T + 1) B, width + 1) on a rollout's observations, time first, the value last."""
    repeats: bool = False
    """Whether the learner goes over a batch `algorithm.epochs` times, in `algorithm.minibatches` parts."""


METHODS: dict[str, Method] = {"a3c": Method(a3c.loss)}
