"""Proximal policy optimisation: several steps on the same rollout, each of which may change the policy only a little.

Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equations 7 and 9. Either the learner goes over the rollout in
epochs and minibatches (learner/parameters/batch_trainer.py), or each actor computes a gradient per epoch
(actor/players/gradients.py): the distributed form of Heess et al. 2017, https://arxiv.org/abs/1707.02286, here with the
clipped ratio.
"""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Floats, Loss, discounts, normalized
from common.rl.algorithms.returns import lambda_returns
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(outputs: Floats, rollout: Rollout, section: Algorithm, action: ActionSpec) -> Loss:
    """The mean over valid steps of -min(ratio * advantage, clip(ratio, 1 - clip, 1 + clip) * advantage) - entropy
    coefficient * H(pi) + value coefficient * (target - V)^2, where targets and advantages are constants.

    The ratio is to the policy that acted. Advantages are GAE(lambda) on the values of now, computed anew each time the
    rollout is gone over (Andrychowicz et al. 2020, https://arxiv.org/abs/2006.05990, section 3.5).

    Args:
        outputs: ((T + 1) B, action.width + 1): what describes the policy, and last the value.
    """
    now = ActorCritic(outputs, rollout, action)
    targets = lambda_returns(
        rollout.rewards.numpy(), discounts(rollout, section), now.values, now.valid, section.gae_lambda
    )
    advantages = targets - now.values[:-1]
    if section.normalize_advantages:
        advantages = normalized(advantages, now.valid)
    surrogate, slope = _clipped(now.ratio, advantages.ravel(), section.clip_range)
    return now.loss(-float(now.weights @ surrogate), -now.weights * slope * now.ratio, targets, section)


def _clipped(ratio: Floats, advantages: Floats, clip: float) -> tuple[Floats, Floats]:
    """The clipped surrogate (N,), and its derivative by the ratio: 0 where a further step would gain nothing."""
    bounded = np.clip(ratio, np.float32(1 - clip), np.float32(1 + clip)) * advantages
    plain = ratio * advantages
    return np.minimum(plain, bounded), np.where(plain <= bounded, advantages, np.float32(0))
