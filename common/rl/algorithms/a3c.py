"""Asynchronous advantage actor-critic: the loss of one rollout.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783, with the batch of a rollout recomputed on the newest weights and
corrected for their lag by V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561).
"""

from __future__ import annotations

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Floats, Loss, discounts, normalized
from common.rl.algorithms.returns import lambda_returns
from common.rl.algorithms.vtrace import VTrace, vtrace
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(outputs: Floats, rollout: Rollout, section: Algorithm, action: ActionSpec) -> Loss:
    """The mean over valid steps of -log pi(a) * advantage - entropy coefficient * H(pi) + value coefficient *
    (target - V)^2, where targets and advantages are constants.

    Args:
        outputs: ((T + 1) B, action.width + 1): what describes the policy, and last the value.
    """
    now = ActorCritic(outputs, rollout, action)
    targets, advantages = _targets(rollout, now.values, now.ratio.reshape(rollout.rewards.shape), section)
    if section.normalize_advantages:
        advantages = normalized(advantages, now.valid)
    coefficients = now.weights * advantages.ravel()
    return now.loss(-float(coefficients @ now.log_probs), -coefficients, targets, section)


def _targets(rollout: Rollout, values: Floats, ratio: Floats, section: Algorithm) -> VTrace:
    valid = rollout.valid.numpy()
    rewards = rollout.rewards.numpy()
    discount_t = discounts(rollout, section)
    if section.correction == "none":
        targets = lambda_returns(rewards, discount_t, values, valid, section.gae_lambda)
        return VTrace(targets, targets - values[:-1])
    return vtrace(rewards, discount_t, values, ratio, valid, section.gae_lambda, section.rho_clip, section.c_clip)
