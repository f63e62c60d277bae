"""What the losses of a policy and a value have in common: everything but targets, and the policy's term."""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.losses import LARGEST_LOG_RATIO, Floats, Loss, squared_error
from common.rl.algorithms.statistics import Statistics
from common.rl.distributions.registry import distribution
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


class ActorCritic:
    """Policy and value on the observations of a rollout; N = T B steps, time first."""

    def __init__(self, outputs: Floats, rollout: Rollout, action: ActionSpec) -> None:
        """`outputs` ((T + 1) B, action.width + 1): what describes the policy, and last the value."""
        shape = rollout.rewards.shape
        self._outputs, self._rows = outputs, shape[0] * shape[1]
        self._actions = rollout.actions.flatten(0, 1).numpy()
        self._policy = distribution(action, outputs[: self._rows, :-1])
        self.valid = rollout.valid.numpy()
        self.weights: Floats = self.valid.ravel().astype(np.float32) / np.float32(max(1, rollout.steps))
        """(N,): of a mean over the valid steps."""
        self.values: Floats = outputs[:, -1].reshape(-1, shape[1])
        """(T + 1, B)."""
        self.log_probs = self._policy.log_prob(self._actions)
        """(N,): of the actions taken, under the policy of now."""
        log_ratio = self.log_probs - rollout.behaviour_log_probs.numpy().ravel()
        self._log_ratio: Floats = np.minimum(log_ratio, np.float32(LARGEST_LOG_RATIO))
        self.ratio: Floats = np.exp(self._log_ratio)
        """(N,): pi / mu, to the policy that acted."""

    def loss(self, policy: float, slope: Floats, targets: Floats, section: Algorithm) -> Loss:
        """The policy's term - entropy coefficient * H(pi) + value coefficient * (target - V)^2, means over valid steps.

        Args:
            policy: the policy's term.
            slope: (N,): its derivative by the log-probabilities of the actions taken.
            targets: (T, B), constants.
        """
        rows, weights = self._rows, self.weights
        value = squared_error(self.values[:-1].ravel(), targets.ravel(), weights)
        derivative = np.zeros_like(self._outputs)
        derivative[:rows, :-1] = self._policy.score(self._actions, slope)
        derivative[:rows, :-1] += self._policy.entropy_gradient(np.float32(-section.entropy_coef) * weights)
        derivative[:rows, -1] = np.float32(section.value_coef) * value.gradient
        statistics = Statistics(
            policy_loss=policy,
            value_loss=value.value,
            entropy=float(weights @ self._policy.entropy()),
            gradient_norm=0.0,
            ratio=float(weights @ self.ratio),
            kl=float(weights @ (self.ratio - 1 - self._log_ratio)),
        )
        return Loss(derivative, statistics)
