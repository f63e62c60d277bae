from __future__ import annotations

import numpy as np
import pytest
from torch import distributions, from_numpy, tensor

from common.rl.action_masks import FORBIDDEN, choices, first_allowed, join, masked, split
from common.rl.action_spec import ActionSpec, discrete
from common.rl.distributions.registry import distribution
from common.rl.observation_spec import ObservationSpec

PAIR = ActionSpec("multi-discrete", (2, 3), (2, 1))
OBSERVATIONS = {
    "box": (ObservationSpec((2, 3), "box", 6), np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 7),
    "number": (ObservationSpec((), "box", 1), np.arange(4, dtype=np.float32) / 7),
    "discrete": (ObservationSpec((), "discrete", 2**20), np.array([0, 5, 2**20 - 1, 1])),
}
MASKS = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0]], np.int8)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_what_is_joined_can_be_split(name: str) -> None:
    seen, observations = OBSERVATIONS[name]
    spec = masked(seen, PAIR)
    rows = join(observations, MASKS)
    assert rows.shape == (4, *spec.shape)
    assert rows.dtype == spec.dtype
    found, allowed = split(spec.bare, rows)
    assert found.dtype == seen.dtype
    np.testing.assert_array_equal(found, observations)
    np.testing.assert_array_equal(allowed, MASKS != 0)


def test_choices_have_their_own_part_of_a_mask() -> None:
    assert [MASKS[0, choice].tolist() for choice in choices(PAIR)] == [[1, 0], [1, 1, 0]]
    assert first_allowed(PAIR, MASKS).tolist() == [[[0], [0]], [[1], [2]], [[0], [0]], [[1], [1]]]
    assert first_allowed(discrete(3), MASKS[:, 2:]).tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [2, 3, 9])
def test_what_is_left_is_the_distribution_of_the_allowed(width: int, seed: int) -> None:
    """Log-probabilities, entropies and their derivatives against torch's Categorical of the allowed actions alone."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 10, (50, width)).astype(np.float32)
    allowed = rng.random((50, width)) < 0.4
    allowed[np.arange(50), rng.integers(width, size=50)] = True
    marked = np.where(allowed, logits, np.float32(FORBIDDEN))
    ours = distribution(discrete(width), marked)
    coefficients = rng.normal(size=50).astype(np.float32)
    for _ in range(20):
        actions, log_probs = ours.sample(rng)
        assert allowed[np.arange(50), actions].all()
        np.testing.assert_allclose(log_probs, ours.log_prob(actions), atol=1e-5)
    assert allowed[np.arange(50), ours.mode()].all()
    score, slope = ours.score(actions, coefficients), ours.entropy_gradient(coefficients)
    assert not score[~allowed].any()
    assert not slope[~allowed].any()
    for row in range(50):
        left = np.flatnonzero(allowed[row])
        numbers = from_numpy(logits[row, left].astype(np.float64)).requires_grad_()
        truth = distributions.Categorical(logits=numbers)
        log_prob = truth.log_prob(tensor(left.tolist().index(actions[row])))
        assert ours.log_prob(actions)[row] == pytest.approx(log_prob.item(), abs=1e-4)
        assert ours.entropy()[row] == pytest.approx(truth.entropy().item(), abs=1e-5)
        for term, found in ((log_prob, score), (truth.entropy(), slope)):
            numbers.grad = None
            (float(coefficients[row]) * term).backward(retain_graph=True)
            assert numbers.grad is not None
            np.testing.assert_allclose(found[row, left], numbers.grad.numpy(), atol=1e-5)


def test_of_values_that_are_far_beyond_any_the_allowed_is_the_best() -> None:
    rows = np.array([[FORBIDDEN, -1e29], [-1e29, FORBIDDEN]], np.float32)
    assert distribution(discrete(2), rows).mode().tolist() == [1, 0]
