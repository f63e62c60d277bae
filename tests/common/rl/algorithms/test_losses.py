"""Each term and its written-out derivative against torch's autograd in float64."""

import numpy as np
import pytest
import torch

from common.rl.algorithms.losses import normalized, squared_error

N = 40
RNG = np.random.default_rng(6)
VALUES, TARGETS = RNG.normal(size=(2, N))
WEIGHTS = np.where(RNG.random(N) < 0.8, 1 / 32, 0.0)


def test_squared_error() -> None:
    values = torch.tensor(VALUES, requires_grad=True)
    loss = (torch.from_numpy(WEIGHTS) * (values - torch.from_numpy(TARGETS)).square()).sum()
    loss.backward()
    term = squared_error(VALUES, TARGETS, WEIGHTS)
    assert term.value == pytest.approx(loss.item())
    assert values.grad is not None
    np.testing.assert_allclose(term.gradient, values.grad.numpy(), atol=1e-12)


def test_normalized_over_the_valid_steps_only() -> None:
    valid = np.array([[True, True], [False, True]])
    advantages = np.array([[1.0, 2.0], [99.0, 6.0]], np.float32)
    weights = valid.ravel() / np.float32(3)
    found = normalized(advantages, weights)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[valid], (np.array([1, 2, 6]) - 3) / np.sqrt(14 / 3), 1e-5)
    assert not normalized(np.zeros((2, 2), np.float32), np.zeros(4, np.float32)).any(), "no valid step"
