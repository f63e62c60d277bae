"""The actor-critic loss of one rollout, with or without a correction for the lag of the policy that acted.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783 (A3C), and with V-trace's correction Espeholt et al. 2018,
https://arxiv.org/abs/1802.01561, section 4.2 (IMPALA).
"""

from typing import Literal

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Loss, discounts, normalized
from common.rl.algorithms.returns import lambda_returns
from common.rl.algorithms.vtrace import vtrace
from common.rl.arrays import Array
from common.rl.rollout import Rollout


def loss(
    outputs: Array,
    rollout: Rollout,
    action: ActionSpec,
    *,
    gamma: float,
    gae_lambda: float,
    entropy_coef: float,
    value_coef: float,
    normalize_advantages: bool,
    correction: Literal["vtrace", "none"],
    rho_clip: float,
    c_clip: float,
) -> Loss:
    """Return the mean over the valid steps of -log pi(a) * advantage - entropy_coef * H(pi) + value_coef *
    (target - V)^2, where targets and advantages are constants.

    Args:
        outputs: ((T + 1) B, action.width + 1): the policy's numbers, and last the value.
        correction: "vtrace": V-trace's targets and advantages; "none": lambda-returns, and lambda-returns minus V.
        rho_clip: see `vtrace`.
        c_clip: see `vtrace`.
    """
    now = ActorCritic(outputs, rollout, action)
    r_t, discount_t = rollout.rewards, discounts(rollout, gamma)
    if correction == "none":
        targets = lambda_returns(r_t, discount_t, now.values, now.valid, gae_lambda)
        advantages = targets - now.values[:-1]
    else:
        ratio = now.ratio.reshape(r_t.shape)
        targets, advantages = vtrace(r_t, discount_t, now.values, ratio, now.valid, gae_lambda, rho_clip, c_clip)
    if normalize_advantages:
        advantages = normalized(advantages, now.weights)
    coefficients = now.weights * advantages.ravel()
    policy_loss = arrays.of(outputs).number(-(coefficients @ now.log_probs))
    return now.loss(policy_loss, -coefficients, targets, entropy_coef=entropy_coef, value_coef=value_coef)
