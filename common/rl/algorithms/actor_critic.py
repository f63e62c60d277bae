"""The parts that all losses with a policy and a value share: everything but the targets and the policy's term."""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.losses import Floats, Loss, squared_error
from common.rl.algorithms.statistics import Statistics
from common.rl.distributions.registry import distribution
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

MAX_LOG_RATIO = 20.0
"""Bound of log(pi / mu): exp of more would overflow, and larger ratios are clipped anyway."""


class ActorCritic:
    """Policy and value on the observations of a rollout; N = T B steps, time first."""

    def __init__(self, section: Algorithm, outputs: Floats, rollout: Rollout, action: ActionSpec) -> None:
        """outputs: ((T + 1) B, action.width + 1): the policy's numbers, and last the value."""
        steps, num_envs = rollout.rewards.shape
        assert outputs.shape == ((steps + 1) * num_envs, action.width + 1), (outputs.shape, rollout.rewards.shape)
        self._section = section
        self._outputs = outputs
        self._rows = steps * num_envs
        self._actions = rollout.actions.flatten(0, 1).numpy()
        self._policy = distribution(action, outputs[: self._rows, :-1])
        self.valid = rollout.valid.numpy()
        self.weights: Floats = self.valid.ravel().astype(np.float32) / np.float32(max(1, rollout.steps))
        """(N,): the weight of each step in a mean over the valid steps."""
        self.values: Floats = outputs[:, -1].reshape(-1, num_envs)
        """(T + 1, B)."""
        self.log_probs = self._policy.log_prob(self._actions)
        """(N,): log pi of the actions taken."""
        log_ratio = self.log_probs - rollout.behaviour_log_probs.numpy().ravel()
        self._log_ratio: Floats = np.minimum(log_ratio, np.float32(MAX_LOG_RATIO))
        self.ratio: Floats = np.exp(self._log_ratio)
        """(N,): pi / mu, where mu is the policy that acted."""

    def standardised(self, advantages: Floats) -> Floats:
        """Advantages (T, B) as (N,); with normalize_advantages of mean 0 and deviation 1 over the valid steps."""
        chosen = advantages[self.valid]
        if self._section.normalize_advantages and len(chosen):
            # float(...) keeps the result float32.
            advantages = (advantages - float(chosen.mean())) / (float(chosen.std()) + 1e-8)
        return advantages.ravel()

    def loss(self, policy_loss: float, slope: Floats, targets: Floats) -> Loss:
        """policy_loss - entropy_coef * H(pi) + value_coef * (target - V)^2, means over the valid steps.

        slope: (N,): the derivative of policy_loss by the log-probabilities of the actions taken. targets: (T, B).
        """
        rows, weights, section = self._rows, self.weights, self._section
        assert slope.shape == (rows,) and targets.shape == self.valid.shape, (slope.shape, targets.shape)
        value_loss, by_value = squared_error(self.values[:-1].ravel(), targets.ravel(), weights)
        derivative = np.zeros_like(self._outputs)
        derivative[:rows, :-1] = self._policy.score(self._actions, slope)
        derivative[:rows, :-1] += self._policy.entropy_gradient(np.float32(-section.entropy_coef) * weights)
        derivative[:rows, -1] = np.float32(section.value_coef) * by_value
        statistics = Statistics(
            policy_loss=policy_loss,
            value_loss=value_loss,
            entropy=float(weights @ self._policy.entropy()),
            gradient_norm=0.0,
            ratio=float(weights @ self.ratio),
            kl=float(weights @ (self.ratio - 1 - self._log_ratio)),
        )
        return Loss(derivative, statistics)
