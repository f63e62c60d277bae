"""Sums over choices, against torch's distributions in float64."""

import numpy as np
import torch

from common.rl.action_spec import ActionSpec
from common.rl.distributions.multi_categorical import MultiCategorical

SPEC = ActionSpec("multi-discrete", (3, 1, 4, 2), (2, 2))
N = 30
RNG = np.random.default_rng(4)
LOGITS = 2 * RNG.normal(size=(N, SPEC.width))
ACTIONS = np.stack([RNG.integers(size, size=N) for size in SPEC.sizes], axis=1)
COEFFICIENTS = RNG.normal(size=N)


def by_torch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, log-probabilities and entropies."""
    logits = torch.tensor(LOGITS, requires_grad=True)
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split(SPEC.sizes, dim=1)]
    taken = [part.log_prob(torch.from_numpy(ACTIONS[:, column])) for column, part in enumerate(parts)]
    return logits, torch.stack(taken).sum(0), torch.stack([part.entropy() for part in parts]).sum(0)


def test_log_prob_and_score() -> None:
    logits, taken, _ = by_torch()
    (torch.from_numpy(COEFFICIENTS) * taken).sum().backward()
    policy, actions = MultiCategorical(SPEC, LOGITS), ACTIONS.reshape(N, 2, 2)
    np.testing.assert_allclose(policy.log_prob(actions), taken.detach().numpy())
    assert logits.grad is not None
    np.testing.assert_allclose(policy.score(actions, COEFFICIENTS), logits.grad.numpy(), atol=1e-12)


def test_entropy() -> None:
    logits, _, entropies = by_torch()
    (torch.from_numpy(COEFFICIENTS) * entropies).sum().backward()
    policy = MultiCategorical(SPEC, LOGITS)
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
