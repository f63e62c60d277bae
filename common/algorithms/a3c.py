"""Asynchronous advantage actor-critic: one rollout, one gradient.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783, with the batch of a rollout recomputed on the newest weights and
corrected for their lag by V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, autograd

from common.algorithms import losses
from common.algorithms.returns import lambda_returns
from common.algorithms.rollout import Rollout
from common.algorithms.statistics import Statistics
from common.algorithms.vtrace import VTrace, vtrace
from common.networks.flat import FlatParameters
from common.networks.heads import PolicyValue
from common.settings.sections import Algorithm

Floats = NDArray[np.float32]

_KEPT_CHUNKS = 16
"""Up to so many chunks the graph of the first pass is kept (0.2 MB a frame for conv nets); beyond, a second pass."""
_LARGEST_LOG_RATIO = 20.0
"""Beyond this a ratio is clipped anyway, and exp of it would overflow."""


def gradient(network: PolicyValue, flat: FlatParameters, rollout: Rollout, section: Algorithm) -> Statistics:
    """Set `flat.gradient` to the clipped gradient of the loss over a rollout.

    The loss is the mean over valid steps of -log pi(a) * advantage - entropy coefficient * H(pi) + value coefficient *
    (target - V)^2; without a valid step the gradient is 0. `flat` must be the parameters of `network`.
    """
    chunks = torch.split(rollout.observations.flatten(0, 1), network.chunk)
    keep = len(chunks) <= _KEPT_CHUNKS
    with torch.set_grad_enabled(keep):
        parts = [network.outputs(chunk) for chunk in chunks]
    outputs = torch.cat([part.detach() for part in parts]).numpy()
    derivative, policy, value, entropy, ratio = _loss(outputs, rollout, section)
    flat.zero()
    for chunk, part, part_derivative in zip(chunks, parts, torch.split(derivative, network.chunk), strict=True):
        autograd.backward(part if keep else network.outputs(chunk), part_derivative)
    norm = clip_norm(flat.gradient, section.gradient_clip)
    return Statistics(policy, value, entropy, norm, ratio)


def _loss(outputs: Floats, rollout: Rollout, section: Algorithm) -> tuple[Tensor, float, float, float, float]:
    """Return the derivative by the network's outputs ((T + 1) B, A + 1); policy loss, value loss, entropy, ratio."""
    shape = tuple(rollout.actions.shape)
    rows = rollout.actions.numel()
    actions = rollout.actions.flatten().numpy()
    valid = rollout.valid.numpy()
    weights = valid.ravel().astype(np.float32) / np.float32(max(1, rollout.steps))
    log_probs = losses.log_softmax(outputs[:rows, :-1])
    values = outputs[:, -1].reshape(-1, shape[1])

    taken = log_probs[np.arange(rows), actions].reshape(shape)
    ratio = np.exp(np.minimum(taken - rollout.behaviour_log_probs.numpy(), np.float32(_LARGEST_LOG_RATIO)))
    targets, advantages = _targets(rollout, values, ratio, section)
    if section.normalize_advantages:
        advantages = _normalized(advantages, valid)

    policy = losses.policy_gradient(log_probs, actions, advantages.ravel(), weights)
    entropy = losses.entropy(log_probs, weights)
    value = losses.squared_error(values[:-1].ravel(), targets.ravel(), weights)
    derivative = np.zeros_like(outputs)
    derivative[:rows, :-1] = policy.gradient - np.float32(section.entropy) * entropy.gradient
    derivative[:rows, -1] = np.float32(section.value) * value.gradient
    mean_ratio = float(weights @ ratio.ravel())
    return torch.from_numpy(derivative), policy.value, value.value, entropy.value, mean_ratio


def _targets(rollout: Rollout, values: Floats, ratio: Floats, section: Algorithm) -> VTrace:
    valid = rollout.valid.numpy()
    rewards = rollout.rewards.numpy()
    discounts = np.where(rollout.terminated.numpy(), np.float32(0), np.float32(section.discount))
    if section.correction == "none":
        targets = lambda_returns(rewards, discounts, values, valid, section.gae_lambda)
        return VTrace(targets, targets - values[:-1])
    return vtrace(rewards, discounts, values, ratio, valid, section.gae_lambda, section.rho_clip, section.c_clip)


def _normalized(advantages: Floats, valid: NDArray[np.bool_]) -> Floats:
    chosen = advantages[valid]
    if not len(chosen):
        return advantages
    # float(...) keeps the result float32.
    return (advantages - float(chosen.mean())) / (float(chosen.std()) + 1e-8)


def clip_norm(vector: Tensor, largest: float) -> float:
    """Scale `vector` in place so that its L2 norm is at most `largest` (0: leave it); return the norm it had."""
    norm = float(torch.linalg.vector_norm(vector))
    if 0 < largest < norm:
        vector.mul_(largest / norm)
    return norm
