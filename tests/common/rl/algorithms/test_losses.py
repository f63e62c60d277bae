"""Each term and its written-out derivative against torch's autograd in float64."""

import numpy as np
import pytest
import torch

from common.rl.algorithms.losses import explained_variance, normalized, squared_error

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


def test_explained_variance_over_the_valid_steps_only() -> None:
    counted = WEIGHTS > 0
    weights = counted / counted.sum()
    near = TARGETS + 0.3 * VALUES
    expected = 1 - np.var((TARGETS - near)[counted]) / np.var(TARGETS[counted])
    assert 0.5 < expected < 1
    assert explained_variance(near, TARGETS, weights) == pytest.approx(expected)
    assert explained_variance(TARGETS + 5, TARGETS, weights) == pytest.approx(1.0), "but for a constant"
    assert explained_variance(0 * TARGETS + 5, TARGETS, weights) == pytest.approx(0.0, abs=1e-6)
    assert explained_variance(100 * VALUES, TARGETS, weights) == -1.0
    assert explained_variance(VALUES, 0 * TARGETS, weights) == -1.0, "targets that are all the same"
    assert explained_variance(VALUES, TARGETS, 0 * weights) == 1.0, "no valid step"


def test_explained_variance_of_what_is_on_a_device_stays_there() -> None:
    near, targets, weights = (torch.from_numpy(one).float() for one in (TARGETS + 0.3 * VALUES, TARGETS, WEIGHTS))
    found = explained_variance(near, targets, weights)
    assert isinstance(found, torch.Tensor) and found.shape == ()
    on_host = explained_variance(near.numpy(), targets.numpy(), weights.numpy())
    assert float(found) == pytest.approx(on_host, rel=1e-5) and isinstance(on_host, float)
