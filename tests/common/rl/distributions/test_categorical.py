"""Drawing, and log-probabilities, entropies and their written-out derivatives against torch's in float64."""

from typing import cast

import numpy as np
import pytest
import torch

from common.rl.action_spec import ActionSpec
from common.rl.distributions.categorical import Categorical, MultiCategorical

LOGITS = np.array([[0.0, 1.0, -2.0], [100.0, 0.0, 99.0]], dtype=np.float32)
N, A = 40, 5
RNG = np.random.default_rng(6)
MANY = 3 * RNG.normal(size=(N, A))
ACTIONS = RNG.integers(0, A, N)
COEFFICIENTS = np.where(RNG.random(N) < 0.8, RNG.normal(size=N), 0.0)


class FixedGenerator:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.value)


def test_frequencies_are_the_probabilities() -> None:
    rng, draws = np.random.default_rng(0), 40_000
    actions, _ = Categorical(np.repeat(LOGITS, draws, axis=0)).sample(rng)
    for row, probabilities in enumerate(np.exp(Categorical(LOGITS).log_probs)):
        counts = np.bincount(actions[row * draws : (row + 1) * draws], minlength=3)
        # Four standard deviations of a binomial frequency.
        allowed = 4 * np.sqrt(probabilities * (1 - probabilities) / draws) + 1e-9
        assert (np.abs(counts / draws - probabilities) <= allowed).all()


def test_log_probabilities_are_those_of_the_actions() -> None:
    policy = Categorical(np.repeat(LOGITS, 50, axis=0))
    actions, log_probs = policy.sample(np.random.default_rng(1))
    assert actions.dtype == np.int64
    assert log_probs.dtype == np.float32
    np.testing.assert_allclose(log_probs, policy.log_prob(actions), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_an_impossible_action_is_never_taken(value: float) -> None:
    logits = np.full((300, 5), -500, dtype=np.float32)
    logits[:, [1, 3]] = np.random.default_rng(2).normal(size=(300, 2))
    actions, _ = Categorical(logits).sample(cast(np.random.Generator, FixedGenerator(value)))
    assert set(actions) <= {1, 3}


def test_mode() -> None:
    assert Categorical(LOGITS).mode().tolist() == [1, 0]


def test_log_probs() -> None:
    expected = torch.from_numpy(MANY).log_softmax(1).numpy()
    np.testing.assert_allclose(Categorical(MANY).log_probs, expected)
    assert np.isfinite(Categorical(np.array([[1e4, -1e4]], np.float32)).log_probs).all()


def test_score() -> None:
    logits = torch.tensor(MANY, requires_grad=True)
    taken = logits.log_softmax(1)[torch.arange(N), torch.from_numpy(ACTIONS)]
    (torch.from_numpy(COEFFICIENTS) * taken).sum().backward()
    policy = Categorical(MANY)
    np.testing.assert_allclose(policy.log_prob(ACTIONS), taken.detach().numpy())
    assert logits.grad is not None
    np.testing.assert_allclose(policy.score(ACTIONS, COEFFICIENTS), logits.grad.numpy(), atol=1e-12)


def test_entropy() -> None:
    logits = torch.tensor(MANY, requires_grad=True)
    entropies = torch.distributions.Categorical(logits=logits).entropy()
    (torch.from_numpy(COEFFICIENTS) * entropies).sum().backward()
    policy = Categorical(MANY)
    np.testing.assert_allclose(policy.entropy(), entropies.detach().numpy())
    assert logits.grad is not None
    np.testing.assert_allclose(policy.entropy_gradient(COEFFICIENTS), logits.grad.numpy(), atol=1e-12)


SPEC = ActionSpec("multi-discrete", (3, 1, 4, 2), (2, 2))
SEVERAL = 2 * RNG.normal(size=(N, SPEC.width))
CHOSEN = np.stack([RNG.integers(size, size=N) for size in SPEC.sizes], axis=1)


def by_torch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, log-probabilities and entropies."""
    logits = torch.tensor(SEVERAL, requires_grad=True)
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split(SPEC.sizes, dim=1)]
    taken = [part.log_prob(torch.from_numpy(CHOSEN[:, column])) for column, part in enumerate(parts)]
    return logits, torch.stack(taken).sum(0), torch.stack([part.entropy() for part in parts]).sum(0)


def test_several_choices_log_prob_and_score() -> None:
    logits, taken, _ = by_torch()
    (torch.from_numpy(COEFFICIENTS) * taken).sum().backward()
    policy, actions = MultiCategorical(SPEC, SEVERAL), CHOSEN.reshape(N, 2, 2)
    np.testing.assert_allclose(policy.log_prob(actions), taken.detach().numpy())
    assert logits.grad is not None
    np.testing.assert_allclose(policy.score(actions, COEFFICIENTS), logits.grad.numpy(), atol=1e-12)


def test_several_choices_entropy() -> None:
    logits, _, entropies = by_torch()
    (torch.from_numpy(COEFFICIENTS) * entropies).sum().backward()
    policy = MultiCategorical(SPEC, SEVERAL)
    np.testing.assert_allclose(policy.entropy(), entropies.detach().numpy())
    assert logits.grad is not None
    np.testing.assert_allclose(policy.entropy_gradient(COEFFICIENTS), logits.grad.numpy(), atol=1e-12)


def test_each_choice_has_its_place_and_its_range() -> None:
    sure = np.full((1, SPEC.width), -100.0, np.float32)
    sure[0, [2, 3, 5, 9]] = 100.0
    policy = MultiCategorical(SPEC, sure)
    actions, log_probs = policy.sample(np.random.default_rng(0))
    assert actions.tolist() == policy.mode().tolist() == [[[2, 0], [1, 1]]]
    assert actions.dtype == np.int64
    assert log_probs.tolist() == [0.0]


def test_one_of_two_is_drawn_as_one_of_three_of_which_one_is_impossible() -> None:
    rng = np.random.default_rng(3)
    logits = (rng.normal(size=(1000, 4, 2)) * [[1], [10], [100], [0]]).reshape(-1, 2).astype(np.float32)
    three = np.concatenate([logits, np.full((len(logits), 1), -np.inf, np.float32)], axis=1)
    (two, log_two), (expected, log_expected) = (
        Categorical(part).sample(np.random.default_rng(7)) for part in (logits, three)
    )
    assert np.count_nonzero(two != expected) <= 1, "but for rounding"
    same = two == expected
    np.testing.assert_allclose(log_two[same], log_expected[same], rtol=1e-5, atol=2e-7)
    assert (two.dtype, log_two.dtype) == (np.int64, np.float32)


def test_one_of_two_for_one_state_is_that_of_many_to_the_last_bit() -> None:
    logits = (20 * np.random.default_rng(8).normal(size=(400, 2))).astype(np.float32)
    logits[:2] = [[0, 500], [500, 0]]
    actions, log_probs = Categorical(logits).sample(np.random.default_rng(9))
    rng = np.random.default_rng(9)
    for row in range(len(logits)):
        action, log_prob = Categorical(logits[row : row + 1]).sample(rng)
        assert (action.dtype, log_prob.dtype) == (np.int64, np.float32)
        assert (action[0], log_prob.tobytes()) == (actions[row], log_probs[row : row + 1].tobytes())
