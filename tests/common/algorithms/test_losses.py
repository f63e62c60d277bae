"""Each term and its written-out derivative against torch's autograd in float64."""

import numpy as np
import pytest
import torch

from common.algorithms.losses import entropy, log_softmax, policy_gradient, squared_error

N, A = 40, 5
RNG = np.random.default_rng(6)
LOGITS = 3 * RNG.normal(size=(N, A))
ACTIONS = RNG.integers(0, A, N)
ADVANTAGES, VALUES, TARGETS = RNG.normal(size=(3, N))
WEIGHTS = np.where(RNG.random(N) < 0.8, 1 / 32, 0.0)


def test_log_softmax() -> None:
    expected = torch.from_numpy(LOGITS).log_softmax(1).numpy()
    np.testing.assert_allclose(log_softmax(LOGITS), expected)
    assert np.isfinite(log_softmax(np.array([[1e4, -1e4]], np.float32))).all()


def test_policy_gradient() -> None:
    logits = torch.tensor(LOGITS, requires_grad=True)
    taken = logits.log_softmax(1)[torch.arange(N), torch.from_numpy(ACTIONS)]
    loss = -(torch.from_numpy(WEIGHTS * ADVANTAGES) * taken).sum()
    loss.backward()
    term = policy_gradient(log_softmax(LOGITS), ACTIONS, ADVANTAGES, WEIGHTS)
    assert term.value == pytest.approx(loss.item())
    assert logits.grad is not None
    np.testing.assert_allclose(term.gradient, logits.grad.numpy(), atol=1e-12)


def test_entropy() -> None:
    logits = torch.tensor(LOGITS, requires_grad=True)
    entropies = torch.distributions.Categorical(logits=logits).entropy()
    total = (torch.from_numpy(WEIGHTS) * entropies).sum()
    total.backward()
    term = entropy(log_softmax(LOGITS), WEIGHTS)
    assert term.value == pytest.approx(total.item())
    assert logits.grad is not None
    np.testing.assert_allclose(term.gradient, logits.grad.numpy(), atol=1e-12)


def test_squared_error() -> None:
    values = torch.tensor(VALUES, requires_grad=True)
    loss = (torch.from_numpy(WEIGHTS) * (values - torch.from_numpy(TARGETS)).square()).sum()
    loss.backward()
    term = squared_error(VALUES, TARGETS, WEIGHTS)
    assert term.value == pytest.approx(loss.item())
    assert values.grad is not None
    np.testing.assert_allclose(term.gradient, values.grad.numpy(), atol=1e-12)
