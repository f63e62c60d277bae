"""Densities, entropies and their written-out derivatives against torch's distributions in float64."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from common.rl.action_spec import ActionSpec, LogStd
from common.rl.distributions.gaussian import STD_FLOOR, Gaussian

N, COUNT = 50, 3
RNG = np.random.default_rng(5)
OUTPUTS = RNG.normal(size=(N, 2 * COUNT))
ACTIONS = 2 * RNG.normal(size=(N, COUNT))
COEFFICIENTS = np.where(RNG.random(N) < 0.8, RNG.normal(size=N), 0.0)
SQUASHED = [(False,) * COUNT, (True,) * COUNT, (True, False, True)]
LOG_STDS: list[LogStd] = ["parameter", "state"]


def spec_of(log_std: LogStd, squashed: tuple[bool, ...] = SQUASHED[0], shape: tuple[int, ...] = (COUNT,)) -> ActionSpec:
    return ActionSpec("box", shape=shape, squashed=squashed, log_std=log_std)


def by_torch(log_std: LogStd) -> tuple[torch.Tensor, Normal]:
    outputs = torch.tensor(OUTPUTS, requires_grad=True)
    mean, raw = outputs.split(COUNT, dim=1)
    std = torch.nn.functional.softplus(raw) if log_std == "state" else raw.exp()
    return outputs, Normal(mean, std + STD_FLOOR)


@pytest.mark.parametrize("squashed", SQUASHED)
@pytest.mark.parametrize("log_std", LOG_STDS)
def test_log_prob_and_score(log_std: LogStd, squashed: tuple[bool, ...]) -> None:
    outputs, normal = by_torch(log_std)
    u = torch.from_numpy(ACTIONS)
    plain = normal.log_prob(u)
    tanh = TransformedDistribution(normal, [TanhTransform(cache_size=1)])
    taken = torch.where(torch.tensor(squashed), tanh.log_prob(torch.tanh(u)), plain).sum(1)
    (torch.from_numpy(COEFFICIENTS) * taken).sum().backward()
    policy = Gaussian(spec_of(log_std, squashed), OUTPUTS)
    np.testing.assert_allclose(policy.log_prob(ACTIONS), taken.detach().numpy(), rtol=1e-6)
    assert outputs.grad is not None
    np.testing.assert_allclose(policy.score(ACTIONS, COEFFICIENTS), outputs.grad.numpy(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("log_std", LOG_STDS)
def test_entropy_is_that_before_tanh(log_std: LogStd) -> None:
    outputs, normal = by_torch(log_std)
    entropies = normal.entropy().sum(1)
    (torch.from_numpy(COEFFICIENTS) * entropies).sum().backward()
    for squashed in SQUASHED:
        policy = Gaussian(spec_of(log_std, squashed), OUTPUTS)
        np.testing.assert_allclose(policy.entropy(), entropies.detach().numpy())
        assert outputs.grad is not None
        np.testing.assert_allclose(policy.entropy_gradient(COEFFICIENTS), outputs.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("log_std", LOG_STDS)
def test_draws_have_the_mean_and_the_spread(log_std: LogStd) -> None:
    draws = 40_000
    row = np.array([[0.5, -1.0, 2.0, -0.5, 0.0, 1.0]], np.float32)
    policy = Gaussian(spec_of(log_std), np.repeat(row, draws, axis=0))
    actions, log_probs = policy.sample(np.random.default_rng(0))
    assert actions.dtype == log_probs.dtype == np.float32
    raw = row[0, 3:].astype(np.float64)
    std = (np.log1p(np.exp(raw)) if log_std == "state" else np.exp(raw)) + STD_FLOOR
    np.testing.assert_allclose(actions.mean(axis=0), row[0, :3], atol=float(5 * std.max() / draws**0.5))
    np.testing.assert_allclose(actions.std(axis=0), std, rtol=5 / (2 * draws) ** 0.5)


def test_shapes_are_the_spaces() -> None:
    policy = Gaussian(spec_of("state", (False,) * 4, (2, 2)), np.zeros((7, 8), np.float32))
    actions, _ = policy.sample(np.random.default_rng(0))
    assert actions.shape == policy.mode().shape == (7, 2, 2)
    assert policy.score(actions, np.ones(7, np.float32)).shape == (7, 8)


@pytest.mark.parametrize("u", [-60.0, 60.0])
def test_the_far_end_of_tanh_is_finite(u: float) -> None:
    outputs = np.array([[u] * COUNT + [0.0] * COUNT], np.float32)
    policy = Gaussian(spec_of("parameter", SQUASHED[1]), outputs)
    actions = np.full((1, COUNT), u, np.float32)
    np.testing.assert_allclose(policy.log_prob(actions), COUNT * (2 * 60 - 2 * np.log(2) - 0.919 - 0.001), rtol=1e-3)


@pytest.mark.parametrize("log_std", LOG_STDS)
def test_a_policy_that_is_sure_keeps_a_floor(log_std: LogStd) -> None:
    outputs = np.full((1, 2 * COUNT), -200.0, np.float32)
    policy = Gaussian(spec_of(log_std), outputs)
    assert np.isfinite(policy.log_prob(policy.mode())).all()
    assert np.isfinite(policy.score(policy.mode(), np.ones(1, np.float32))).all()
    assert not policy.entropy_gradient(np.ones(1, np.float32)).any()
