"""Sampling and greedy actions."""

from typing import cast

import numpy as np
import pytest

from common.algorithms.acting import greedy, sample
from common.algorithms.losses import log_softmax

LOGITS = np.array([[0.0, 1.0, -2.0], [100.0, 0.0, 99.0]], dtype=np.float32)


class FixedGenerator:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.value)


def test_frequencies_are_the_probabilities() -> None:
    rng, draws = np.random.default_rng(0), 40_000
    actions, _ = sample(np.repeat(LOGITS, draws, axis=0), rng)
    for row, probabilities in enumerate(np.exp(log_softmax(LOGITS))):
        counts = np.bincount(actions[row * draws : (row + 1) * draws], minlength=3)
        # Four standard deviations of a binomial frequency.
        allowed = 4 * np.sqrt(probabilities * (1 - probabilities) / draws) + 1e-9
        assert (np.abs(counts / draws - probabilities) <= allowed).all()


def test_log_probabilities_are_those_of_the_actions() -> None:
    actions, log_probs = sample(np.repeat(LOGITS, 50, axis=0), np.random.default_rng(1))
    assert actions.dtype == np.int64
    assert log_probs.dtype == np.float32
    expected = log_softmax(np.repeat(LOGITS, 50, axis=0))[np.arange(100), actions]
    np.testing.assert_allclose(log_probs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_an_impossible_action_is_never_taken(value: float) -> None:
    logits = np.full((300, 5), -500, dtype=np.float32)
    logits[:, [1, 3]] = np.random.default_rng(2).normal(size=(300, 2))
    actions, _ = sample(logits, cast(np.random.Generator, FixedGenerator(value)))
    assert set(actions) <= {1, 3}


def test_greedy() -> None:
    assert greedy(LOGITS).tolist() == [1, 0]
