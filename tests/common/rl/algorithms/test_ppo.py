"""The loss of PPO and its derivative against autograd in float64 on the formula of the paper."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from common.rl.algorithms.registry import METHODS
from common.rl.gradient import gradient
from common.settings.sections import Algorithm
from tests.helpers.losses import naive_returns, outputs_of, probabilities
from tests.helpers.rollouts import ACTIONS, BOX, COPIES, STEPS, make, tensors

ROWS = STEPS * COPIES


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clip_range": 0.9},
        {"gae_lambda": 0.8, "entropy_coef": 0.2, "value_coef": 0.9},
        {"normalize_advantages": True},
    ],
)
def test_the_loss_and_its_derivative_are_those_of_the_paper(changes: dict[str, Any]) -> None:
    model, rollout = make(BOX)
    section = Algorithm(kind="ppo", gamma=0.9, **changes)
    outputs = outputs_of(model, rollout)
    ours = METHODS["ppo"].loss(section, outputs, rollout, model.network.action, None)

    _, values = probabilities(outputs)
    targets = torch.from_numpy(naive_returns(rollout, values, 0.9, section.gae_lambda))
    advantages = targets - torch.from_numpy(values[:-1])
    given = tensors(rollout)
    valid = given.valid
    if section.normalize_advantages:
        chosen = advantages[valid]
        advantages = (advantages - chosen.mean()) / chosen.std(correction=0)
    inputs = torch.from_numpy(outputs).double().requires_grad_()
    policy = torch.distributions.Categorical(logits=inputs[:ROWS, :-1].reshape(STEPS, COPIES, ACTIONS))
    log_ratio = policy.log_prob(given.actions) - given.behaviour_log_probs.double()
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - section.clip_range, 1 + section.clip_range)
    surrogate = torch.minimum(ratio * advantages, bounded * advantages)[valid].mean()
    value_loss = (targets.ravel() - inputs[:ROWS, -1])[valid.ravel()].square().mean()
    entropy = policy.entropy()[valid].mean()
    (-surrogate + section.value_coef * value_loss - section.entropy_coef * entropy).backward()
    assert inputs.grad is not None

    np.testing.assert_allclose(ours.derivative, inputs.grad.numpy(), rtol=1e-3, atol=1e-6)
    expected = (-surrogate, value_loss, entropy, ratio[valid].mean(), (ratio - 1 - log_ratio)[valid].mean())
    statistics = ours.statistics
    found = (statistics.policy_loss, statistics.value_loss, statistics.entropy, statistics.ratio, statistics.kl)
    beyond = (ratio[valid] > 1 + section.clip_range) | (ratio[valid] < 1 - section.clip_range)
    assert statistics.clip_fraction == pytest.approx(beyond.double().mean().item(), rel=1e-4) and beyond.any()
    np.testing.assert_allclose(found, [one.item() for one in expected], rtol=1e-4)
    moved = (ratio > 1 + section.clip_range) & (advantages > 0) & valid
    assert moved.any(), "the rollout holds steps that are clipped"


def test_on_the_policy_that_acted_nothing_is_clipped_and_the_gradient_is_the_actor_critic_s() -> None:
    model, rollout = make(BOX)
    pi, _ = probabilities(outputs_of(model, rollout))
    taken = np.take_along_axis(pi[:-1], rollout.actions[:, :, None], axis=2)[:, :, 0]
    rollout = dataclasses.replace(rollout, behaviour_log_probs=np.log(taken).astype(np.float32))
    plain = Algorithm(correction="none", gae_lambda=0.9, max_grad_norm=0.0)
    gradient(model, rollout, plain)
    expected = model.flat.gradient.clone()
    statistics = gradient(model, rollout, Algorithm(kind="ppo", gae_lambda=0.9, max_grad_norm=0.0))
    assert (statistics.ratio, statistics.kl) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-6))
    assert statistics.clip_fraction == 0.0
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-5)


def test_of_its_steps_apart_the_loss_is_the_same() -> None:
    model, rollout = make(BOX)
    section = Algorithm(kind="ppo", gae_lambda=0.9, normalize_advantages=True)
    expected = gradient(model, rollout, section)
    vector = model.flat.gradient.clone()
    steps = METHODS["ppo"].steps
    assert steps is not None
    found = gradient(model, steps(section, model.outputs(rollout), rollout), section)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(model.flat.gradient, vector, rtol=1e-3, atol=1e-6)


def test_an_enormous_ratio_stays_finite() -> None:
    model, rollout = make(BOX)
    rollout = dataclasses.replace(rollout, behaviour_log_probs=np.full((STEPS, COPIES), -1e4, np.float32))
    assert gradient(model, rollout, Algorithm(kind="ppo")).ratio > 1e6
    assert model.flat.gradient.isfinite().all()
