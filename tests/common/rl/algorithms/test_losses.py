"""The squared error and its written-out derivative against torch's autograd in float64."""

import numpy as np
import pytest
import torch

from common.rl.algorithms.losses import squared_error

N = 40
RNG = np.random.default_rng(6)
VALUES, TARGETS = RNG.normal(size=(2, N))
WEIGHTS = np.where(RNG.random(N) < 0.8, 1 / 32, 0.0)


def test_squared_error() -> None:
    values = torch.tensor(VALUES, requires_grad=True)
    loss = (torch.from_numpy(WEIGHTS) * (values - torch.from_numpy(TARGETS)).square()).sum()
    loss.backward()
    value, gradient = squared_error(VALUES, TARGETS, WEIGHTS)
    assert value == pytest.approx(loss.item())
    assert values.grad is not None
    np.testing.assert_allclose(gradient, values.grad.numpy(), atol=1e-12)
