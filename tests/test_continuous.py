"""From an environment whose actions are numbers to a policy that takes the right ones, in one process."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import FlattenObservation

from actor.collector import Collector
from actor.players.gradients import GradientPlayer
from common.rl.algorithms.exploration import Sampling
from common.rl.distributions.registry import distribution
from common.rl.environments.make import make as make_environments
from common.rl.environments.sequential import SequentialEnvironments
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel, build
from common.rl.rewards import reward_transform
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from tests.helpers.run import settings_of, welcome_of

LOW, HIGH = np.array([-4.0, 10.0]), np.array([4.0, 20.0])


class Follow(gymnasium.Env[Any, Any]):
    """The nearer the two numbers taken are to 2 side and 14 - 3 side the better; seen is 1000 + side, -1 or 1."""

    observation_space = Dict(side=Box(0, 2000, (1,), np.float64))
    action_space = Box(LOW.astype(np.float32), HIGH.astype(np.float32))

    def __init__(self) -> None:
        self.side, self.elapsed = 1.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        first, second = action.tolist()
        reward = -(((first - 2 * self.side) / 8) ** 2) - ((second - 14 + 3 * self.side) / 10) ** 2
        self.elapsed += 1
        return self._seen(), 100 * reward, self.elapsed == 10, False, {}

    def _seen(self) -> Any:
        self.side = 1.0 if self.np_random.random() < 0.5 else -1.0
        return {"side": np.array([1000 + self.side])}


def trained(updates: int, *assignments: str) -> tuple[TorchModel, SequentialEnvironments]:
    """Single-handed, each gradient a step; observations and rewards are normalised."""
    settings = settings_of(
        *("network.hidden=[16]", "network.normalize=true", "environment.reward_normalize=true"),
        *(
            "algorithm.gamma=0.5",
            "algorithm.rollout_length=4",
            "algorithm.entropy_coef=0.0",
            "algorithm.max_grad_norm=1.0",
        ),
        *("optimizer.learning_rate=0.03", *assignments),
    )
    games = [FlattenObservation(Follow()) for _ in range(16)]
    environments = SequentialEnvironments(games, name="Follow", seed=0, bounds=settings.environment.action_bounds)
    observation = environments.observation
    model = build(settings, observation, environments.action)
    rng = np.random.default_rng(0)
    collector = Collector(
        environments,
        model,
        observation,
        algorithm=settings.algorithm,
        rewards=reward_transform(settings, 16, model.normalization, model.extras),
        rng=rng,
        exploration=Sampling(environments.action, rng),
    )
    optimizer = make_optimizer(settings.optimizer, model.flat.vector, 0)
    weights = Weights(optimizer, model.extras, model.normalization)
    for _ in range(updates):
        rollout = collector.advance(math.inf)
        assert rollout is not None and rollout.moments is not None
        gradient(model, rollout.data, settings.algorithm)
        weights.merge(rollout.moments)
        weights.step(model.flat.gradient, scale=1.0, frames=0)
        weights.end_version()
    return model, environments


@pytest.mark.learning
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("bounds", "spread", "error"),
    [
        ("tanh", "state", 1.0),
        ("clip", "parameter", 2.5),
    ],  # what is cut off gathers at the bounds, and draws means there
)
def test_the_numbers_that_are_rewarded_are_learnt(bounds: str, spread: str, error: float) -> None:
    model, environments = trained(150, f"environment.action_bounds={bounds!r}", f"network.log_std={spread!r}")
    numbers, _ = model.network(torch.tensor([[999.0], [1001.0]]))
    policy = distribution(model.network.action, numbers.detach().numpy())
    taken = environments.actions.own(policy.mode())
    np.testing.assert_allclose(taken, [[-2.0, 17.0], [2.0, 11.0]], atol=error)
    assert (policy.entropy() < 0.8 * math.log(2 * math.pi * math.e)).all(), "it is surer than at first"


@pytest.mark.parametrize("spread", ["parameter", "state"])
def test_an_actor_draws_from_the_policy_that_learns(spread: str) -> None:
    settings = settings_of(
        *("environment.id=Pendulum-v1", "environment.num_envs=2", "algorithm.rollout_length=5", "network.hidden=[8]"),
        f"network.log_std={spread}",
    )
    probe = make_environments(settings.environment, num_envs=1, seed=0)
    model = build(settings, probe.observation, probe.action)
    probe.close()
    player = GradientPlayer(welcome_of(model=model.flat.hash, codec="none"), settings, None)
    try:
        assert player.advance(math.inf)
        statistics = player.pack(1)[0].statistics
    finally:
        player.close()
    assert statistics["ratio"] == pytest.approx(1, abs=1e-4)
    assert statistics["kl"] == pytest.approx(0, abs=1e-5)
