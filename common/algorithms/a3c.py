"""Asynchronous advantage actor-critic: the loss of one rollout.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783, with the batch of a rollout recomputed on the newest weights and
corrected for their lag by V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561).
"""

from __future__ import annotations

import numpy as np

from common.algorithms import losses
from common.algorithms.losses import Floats, Loss
from common.algorithms.returns import lambda_returns
from common.algorithms.rollout import Rollout
from common.algorithms.statistics import Statistics
from common.algorithms.vtrace import VTrace, vtrace
from common.distributions.registry import distribution
from common.networks.action import ActionSpec
from common.settings.sections import Algorithm


def loss(outputs: Floats, rollout: Rollout, section: Algorithm, action: ActionSpec) -> Loss:
    """The mean over valid steps of -log pi(a) * advantage - entropy coefficient * H(pi) + value coefficient *
    (target - V)^2, where targets and advantages are constants.

    Args:
        outputs: ((T + 1) B, action.width + 1): what describes the policy, and last the value.
    """
    shape = rollout.rewards.shape
    rows = shape[0] * shape[1]
    actions = rollout.actions.flatten(0, 1).numpy()
    valid = rollout.valid.numpy()
    weights = valid.ravel().astype(np.float32) / np.float32(max(1, rollout.steps))
    policy = distribution(action, outputs[:rows, :-1])
    values = outputs[:, -1].reshape(-1, shape[1])

    taken = policy.log_prob(actions).reshape(shape)
    log_ratio = np.minimum(taken - rollout.behaviour_log_probs.numpy(), np.float32(losses.LARGEST_LOG_RATIO))
    ratio = np.exp(log_ratio)
    targets, advantages = _targets(rollout, values, ratio, section)
    if section.normalize_advantages:
        advantages = losses.normalized(advantages, valid)

    coefficients = weights * advantages.ravel()
    value = losses.squared_error(values[:-1].ravel(), targets.ravel(), weights)
    derivative = np.zeros_like(outputs)
    derivative[:rows, :-1] = policy.score(actions, -coefficients)
    derivative[:rows, :-1] += policy.entropy_gradient(np.float32(-section.entropy) * weights)
    derivative[:rows, -1] = np.float32(section.value) * value.gradient
    statistics = Statistics(
        policy_loss=-float(coefficients @ taken.ravel()),
        value_loss=value.value,
        entropy=float(weights @ policy.entropy()),
        gradient_norm=0.0,
        ratio=float(weights @ ratio.ravel()),
        kl=float(weights @ (ratio - 1 - log_ratio).ravel()),
    )
    return Loss(derivative, statistics)


def _targets(rollout: Rollout, values: Floats, ratio: Floats, section: Algorithm) -> VTrace:
    valid = rollout.valid.numpy()
    rewards = rollout.rewards.numpy()
    discounts = np.where(rollout.terminated.numpy(), np.float32(0), np.float32(section.discount))
    if section.correction == "none":
        targets = lambda_returns(rewards, discounts, values, valid, section.gae_lambda)
        return VTrace(targets, targets - values[:-1])
    return vtrace(rewards, discounts, values, ratio, valid, section.gae_lambda, section.rho_clip, section.c_clip)
