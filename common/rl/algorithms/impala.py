"""IMPALA: actors play on, the learner corrects for the age of what they send.

Espeholt et al. 2018, https://arxiv.org/abs/1802.01561: the actor-critic loss on V-trace's targets, section 4.2.
"""

from __future__ import annotations

import msgspec

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a3c
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(outputs: Floats, rollout: Rollout, section: Algorithm, action: ActionSpec) -> Loss:
    """A3C's loss with V-trace's targets and advantages; see `common.rl.algorithms.a3c.loss`."""
    return a3c.loss(outputs, rollout, msgspec.structs.replace(section, correction="vtrace"), action)
