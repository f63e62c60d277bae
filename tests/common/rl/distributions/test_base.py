"""What every distribution must agree with itself on."""

import numpy as np
import pytest

from common.rl.action_spec import ActionSpec, discrete
from common.rl.distributions.base import Distribution
from common.rl.distributions.registry import distribution

PLAIN = [
    discrete(1),
    discrete(5),
    ActionSpec("multi-discrete", (2, 5, 1), (3,)),
    ActionSpec("box", shape=(), squashed=(False,)),
    ActionSpec("box", shape=(2, 2), squashed=(False,) * 4, log_std="state"),
]
SPECS = [*PLAIN, ActionSpec("box", shape=(3,), squashed=(True, False, True), log_std="state")]
N = 200


def make(spec: ActionSpec, seed: int = 0) -> Distribution:
    return distribution(spec, np.random.default_rng(seed).normal(size=(N, spec.width)).astype(np.float32))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_what_is_drawn_has_the_probability_it_came_with(spec: ActionSpec) -> None:
    actions, log_probs = make(spec).sample(np.random.default_rng(1))
    assert actions.shape == (N, *spec.shape)
    assert log_probs.dtype == np.float32
    assert actions.dtype == spec.dtype
    np.testing.assert_allclose(make(spec).log_prob(actions), log_probs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", PLAIN, ids=str)
def test_nothing_drawn_is_likelier_than_the_mode(spec: ActionSpec) -> None:
    policy = make(spec)
    actions, _ = policy.sample(np.random.default_rng(1))
    assert (policy.log_prob(policy.mode()) >= policy.log_prob(actions) - 1e-6).all()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_expected_score_is_zero(spec: ActionSpec) -> None:
    """The mean of grad log pi over the policy's own actions vanishes, which no wrong derivative does."""
    row = np.random.default_rng(2).normal(size=(1, spec.width)).astype(np.float32)
    draws = 40_000
    policy = distribution(spec, np.repeat(row, draws, axis=0))
    actions, _ = policy.sample(np.random.default_rng(3))
    scores = policy.score(actions, np.full(draws, 1.0, np.float32))
    error = scores.std(axis=0) / np.sqrt(draws)
    assert (np.abs(scores.mean(axis=0)) <= 5 * error + 1e-6).all()
