"""Proximal policy optimisation: several steps on the same rollout, each of which may change the policy only a little.

Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equations 7 and 9. Either the learner goes over the rollout in
epochs and minibatches, or each actor computes a gradient per epoch: the distributed form of Heess et al. 2017,
https://arxiv.org/abs/1707.02286, with the clipped ratio.
"""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Floats, Loss, discounts
from common.rl.algorithms.returns import lambda_returns
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(section: Algorithm, outputs: Floats, rollout: Rollout, action: ActionSpec, _target: None = None) -> Loss:
    """Return the mean over the valid steps of -min(ratio * advantage, clip(ratio, 1 - clip_range, 1 + clip_range) *
    advantage) - entropy_coef * H(pi) + value_coef * (target - V)^2, where targets and advantages are constants.

    The ratio is to the policy that acted. Advantages are GAE(lambda) on the current values, computed anew in each pass
    over the rollout (Andrychowicz et al. 2020, https://arxiv.org/abs/2006.05990, section 3.5). outputs: as for A3C.
    """
    now = ActorCritic(section, outputs, rollout, action)
    discount_t = discounts(rollout, section.gamma)
    targets = lambda_returns(rollout.rewards.numpy(), discount_t, now.values, now.valid, section.gae_lambda)
    advantages = now.standardised(targets - now.values[:-1])
    bounds = np.float32(1 - section.clip_range), np.float32(1 + section.clip_range)
    plain, clipped = now.ratio * advantages, np.clip(now.ratio, *bounds) * advantages
    policy_loss = -float(now.weights @ np.minimum(plain, clipped))
    # The derivative by the ratio is 0 where the clipped term is the smaller one.
    by_ratio = np.where(plain <= clipped, advantages, np.float32(0))
    return now.loss(policy_loss, -now.weights * by_ratio * now.ratio, targets)
