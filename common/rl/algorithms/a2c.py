"""Advantage actor-critic without the asynchrony: the learner computes the loss, on what its own policy played.

The data-parallel form of A3C: with staleness.policy = "synchronous" it waits for the rollouts of all actors and takes
one step on them together, so that there is nothing to correct. Under the other policies what is older counts less, as
everywhere, and is not corrected either: for those there is `vtrace`.
"""

from __future__ import annotations

import msgspec

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a3c
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(outputs: Floats, rollout: Rollout, section: Algorithm, action: ActionSpec) -> Loss:
    """A3C's loss with n-step (or lambda) returns; see `common.rl.algorithms.a3c.loss`."""
    return a3c.loss(outputs, rollout, msgspec.structs.replace(section, correction="none"), action)
