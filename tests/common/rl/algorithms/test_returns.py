"""Returns against explicit sums, episode by episode, in float64."""

import numpy as np
import pytest

from common.rl.algorithms.returns import lambda_returns

STEPS, COPIES = 12, 40


def naive(r: np.ndarray, d: np.ndarray, v: np.ndarray, valid: np.ndarray, lambda_: float) -> np.ndarray:
    """The mixture (1 - lambda) sum_n lambda^(n-1) G^(n) of n-step returns, each within its own episode."""
    out = v[:-1].astype(np.float64)
    for b in range(r.shape[1]):
        for s in range(len(r)):
            if not valid[s, b]:
                continue
            last = s
            while last + 1 < len(r) and valid[last + 1, b]:
                last += 1
            n_step = []
            for n in range(1, last - s + 2):
                total, discount = 0.0, 1.0
                for t in range(s, s + n):
                    total += discount * float(r[t, b])
                    discount *= float(d[t, b])
                n_step.append(total + discount * float(v[s + n, b]))
            weights = [(1 - lambda_) * lambda_**n for n in range(len(n_step) - 1)] + [lambda_ ** (len(n_step) - 1)]
            out[s, b] = np.dot(weights, n_step)
    return out


@pytest.mark.parametrize("lambda_", [0.0, 0.6, 1.0])
def test_lambda_returns(lambda_: float) -> None:
    rng = np.random.default_rng(3)
    r, v = (rng.normal(size=(n, COPIES)).astype(np.float32) for n in (STEPS, STEPS + 1))
    valid = rng.random((STEPS, COPIES)) < 0.85
    d = np.where(rng.random((STEPS, COPIES)) < 0.15, 0, 0.95).astype(np.float32)
    result = lambda_returns(r, d, v, valid, lambda_)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, naive(r, d, v, valid, lambda_), rtol=1e-4, atol=1e-5)


def test_n_step_return_by_hand() -> None:
    r, d = np.array([[1.0], [2.0]], np.float32), np.array([[0.5], [0.5]], np.float32)
    v = np.array([[9.0], [7.0], [8.0]], np.float32)
    returns = lambda_returns(r, d, v, np.ones((2, 1), bool), 1.0)
    np.testing.assert_allclose(returns, [[1 + 0.5 * (2 + 0.5 * 8)], [2 + 0.5 * 8]])


def test_arrays_of_other_shapes_are_refused() -> None:
    right, wrong = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    valid = np.ones((2, 3), np.bool_)
    with pytest.raises(AssertionError):
        lambda_returns(right, right, right, valid, 1.0)
    with pytest.raises(AssertionError):
        lambda_returns(right, wrong, np.zeros((3, 3), np.float32), valid, 1.0)
