"""The actor-critic loss of one rollout, with or without a correction for the lag of the policy that acted.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783 (A3C), and with V-trace's correction Espeholt et al. 2018,
https://arxiv.org/abs/1802.01561, section 4.2 (IMPALA).
"""

from __future__ import annotations

from typing import Literal

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Floats, Loss, discounts
from common.rl.algorithms.returns import lambda_returns, vtrace
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def loss(
    section: Algorithm,
    outputs: Floats,
    rollout: Rollout,
    action: ActionSpec,
    _target: None = None,
    *,
    correction: Literal["vtrace", "none"] | None = None,
) -> Loss:
    """Return the mean over the valid steps of -log pi(a) * advantage - entropy_coef * H(pi) + value_coef *
    (target - V)^2, where targets and advantages are constants.

    outputs: ((T + 1) B, action.width + 1): the policy's numbers, and last the value. correction: "vtrace": V-trace's
    targets and advantages; "none": lambda-returns, and these minus V; None: as the section says.
    """
    now = ActorCritic(section, outputs, rollout, action)
    r_t, discount_t = rollout.rewards.numpy(), discounts(rollout, section.gamma)
    if (correction or section.correction) == "none":
        targets = lambda_returns(r_t, discount_t, now.values, now.valid, section.gae_lambda)
        advantages = targets - now.values[:-1]
    else:
        ratio = now.ratio.reshape(r_t.shape)
        targets, advantages = vtrace(
            r_t, discount_t, now.values, ratio, now.valid, section.gae_lambda, section.rho_clip, section.c_clip
        )
    coefficients = now.weights * now.standardised(advantages)
    policy_loss = -float(coefficients @ now.log_probs)
    return now.loss(policy_loss, -coefficients, targets)
