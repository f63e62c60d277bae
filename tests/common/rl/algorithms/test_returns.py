"""Returns and V-trace against explicit sums, episode by episode, in float64."""

from typing import NamedTuple

import numpy as np
import pytest

from common.rl.algorithms.returns import accumulate, lambda_returns, vtrace

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


def test_accumulate_leaves_its_input() -> None:
    x = np.ones((3, 1), np.float32)
    assert accumulate(x, np.full((3, 1), 0.5, np.float32)).ravel().tolist() == [1.75, 1.5, 1.0]
    assert x.ravel().tolist() == [1, 1, 1]


def test_arrays_of_other_shapes_are_refused() -> None:
    right, wrong = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    valid = np.ones((2, 3), np.bool_)
    with pytest.raises(AssertionError):
        lambda_returns(right, right, right, valid, 1.0)
    with pytest.raises(AssertionError):
        lambda_returns(right, wrong, np.zeros((3, 3), np.float32), valid, 1.0)


class Batch(NamedTuple):
    r: np.ndarray
    d: np.ndarray
    v: np.ndarray
    ratio: np.ndarray
    valid: np.ndarray


def batch() -> Batch:
    rng = np.random.default_rng(4)
    r, v = (rng.normal(size=(n, COPIES)).astype(np.float32) for n in (STEPS, STEPS + 1))
    d = np.where(rng.random((STEPS, COPIES)) < 0.15, 0, 0.9).astype(np.float32)
    # Far below, between and above every clipping threshold used here.
    ratio = np.exp(rng.uniform(-2.5, 2.5, size=(STEPS, COPIES))).astype(np.float32)
    return Batch(r, d, v, ratio, rng.random((STEPS, COPIES)) < 0.85)


def naive_vtrace(x: Batch, lambda_: float, rho_clip: float, c_clip: float) -> tuple[np.ndarray, np.ndarray]:
    """v_s = V(x_s) + sum_t (prod of discounts and c up to t) delta_t, over the steps of the same episode."""
    targets, advantages = x.v[:-1].astype(np.float64), np.zeros(x.r.shape)
    for b in range(COPIES):
        for s in reversed(range(STEPS)):
            if not x.valid[s, b]:
                continue
            product = 1.0
            for t in range(s, STEPS):
                if not x.valid[t, b]:
                    break
                rho = min(rho_clip, float(x.ratio[t, b]))
                delta = rho * (float(x.r[t, b]) + float(x.d[t, b]) * float(x.v[t + 1, b]) - float(x.v[t, b]))
                targets[s, b] += product * delta
                product *= float(x.d[t, b]) * lambda_ * min(c_clip, float(x.ratio[t, b]))
            target = targets[s + 1, b] if s + 1 < STEPS else float(x.v[STEPS, b])
            q = lambda_ * target + (1 - lambda_) * float(x.v[s + 1, b])
            rho = min(rho_clip, float(x.ratio[s, b]))
            advantages[s, b] = rho * (float(x.r[s, b]) + float(x.d[s, b]) * q - float(x.v[s, b]))
    return targets, advantages


@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (3.7, 2.2), (0.5, 1.5)])
@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
def test_equals_the_papers_sums(lambda_: float, rho_clip: float, c_clip: float) -> None:
    x = batch()
    ours, ours_advantages = vtrace(*x, lambda_, rho_clip, c_clip)
    targets, advantages = naive_vtrace(x, lambda_, rho_clip, c_clip)
    assert ours.dtype == ours_advantages.dtype == np.float32
    np.testing.assert_allclose(ours, targets, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours_advantages, advantages, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
def test_with_ratios_of_one_it_is_gae(lambda_: float) -> None:
    x = batch()._replace(ratio=np.ones((STEPS, COPIES), np.float32))
    targets, advantages = vtrace(*x, lambda_, 1.0, 1.0)
    returns = lambda_returns(x.r, x.d, x.v, x.valid, lambda_)
    np.testing.assert_allclose(targets, returns, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(advantages, returns - x.v[:-1], rtol=1e-5, atol=1e-5)


def test_a_dummy_step_counts_for_nothing_in_v_trace() -> None:
    x = batch()
    targets, advantages = vtrace(*x, 1.0, 1.0, 1.0)
    assert (targets[~x.valid] == x.v[:-1][~x.valid]).all()
    assert (advantages[~x.valid] == 0).all()
