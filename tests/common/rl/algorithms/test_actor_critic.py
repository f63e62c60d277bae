"""The three terms' derivatives against autograd, with a policy term of any slope."""

import numpy as np
import pytest
import torch

from common.rl.algorithms.actor_critic import ActorCritic
from tests.helpers.rollouts import ACTIONS, BOX, COPIES, STEPS, make

ENTROPY, VALUE = 0.3, 0.7


def test_the_derivative_is_that_of_its_terms() -> None:
    model, rollout = make(BOX)
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=((STEPS + 1) * COPIES, ACTIONS + 1)).astype(np.float32)
    targets = rng.normal(size=(STEPS, COPIES)).astype(np.float32)
    slope = rng.normal(size=STEPS * COPIES).astype(np.float32)
    ours = ActorCritic(outputs, rollout, model.network.action).loss(
        7.0, slope, targets, entropy_coef=ENTROPY, value_coef=VALUE
    )

    x = torch.tensor(outputs, dtype=torch.float64, requires_grad=True)
    policy = torch.distributions.Categorical(logits=x[: STEPS * COPIES, :-1])
    valid = rollout.valid.flatten()
    errors = torch.from_numpy(targets).flatten() - x[: STEPS * COPIES, -1]
    plain = (torch.from_numpy(slope) * policy.log_prob(torch.from_numpy(rollout.actions).flatten())).sum()
    plain = plain - ENTROPY * policy.entropy()[valid].mean() + VALUE * errors[valid].square().mean()
    plain.backward()
    assert x.grad is not None
    np.testing.assert_allclose(ours.derivative, x.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert ours.statistics.policy_loss == 7.0
    assert ours.statistics.value_loss == pytest.approx(errors[valid].square().mean().item(), rel=1e-4)
    assert ours.statistics.entropy == pytest.approx(policy.entropy()[valid].mean().item(), rel=1e-4)


def test_arrays_of_other_shapes_are_refused() -> None:
    model, rollout = make(BOX)
    rows = (STEPS + 1) * COPIES
    for shape in ((rows - 1, ACTIONS + 1), (rows, ACTIONS)):
        with pytest.raises(AssertionError):
            ActorCritic(np.zeros(shape, np.float32), rollout, model.network.action)
    now = ActorCritic(np.zeros((rows, ACTIONS + 1), np.float32), rollout, model.network.action)
    with pytest.raises(AssertionError):
        now.loss(0.0, np.zeros(rows, np.float32), np.zeros((STEPS, COPIES), np.float32), entropy_coef=0, value_coef=0)
