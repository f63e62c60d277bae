"""The parts that all losses with a policy and a value share: everything but the targets and the policy's term."""

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.losses import Loss, explained_variance, squared_error
from common.rl.algorithms.statistics import Statistics
from common.rl.arrays import Array
from common.rl.distributions.registry import distribution
from common.rl.rollout import Rollout

MAX_LOG_RATIO = 20.0
"""Bound of log(pi / mu): exp of more would overflow, and larger ratios are clipped anyway."""


class ActorCritic:
    """Policy and value on the observations of a rollout; N = T B steps, time first."""

    def __init__(self, outputs: Array, rollout: Rollout, action: ActionSpec) -> None:
        """outputs: ((T + 1) B, action.width + 1): the policy's numbers, and last the value.

        For a rollout of `Rollout.apart` they are (N, action.width + 1).
        """
        steps, num_envs = rollout.rewards.shape
        observed = steps + (rollout.targets is None)
        assert outputs.shape == (observed * num_envs, action.width + 1), (outputs.shape, rollout.rewards.shape)
        self._arrays = arrays.of(outputs)
        self._outputs = outputs
        self._rows = steps * num_envs
        self._actions = rollout.actions.reshape(self._rows, *rollout.actions.shape[2:])
        self._policy = distribution(action, outputs[: self._rows, :-1])
        self.valid = rollout.valid
        self.weights = self._arrays.mean_weights(self.valid)
        """(N,): the weight of each step in a mean over the valid steps."""
        self.values = outputs[:, -1].reshape(-1, num_envs)
        """(T + 1, B), or (T, B) for a rollout of `Rollout.apart`."""
        self.log_probs = self._policy.log_prob(self._actions)
        """(N,): log pi of the actions taken."""
        log_ratio = self.log_probs - rollout.behaviour_log_probs.ravel()
        self._log_ratio = self._arrays.clipped(log_ratio, None, MAX_LOG_RATIO)
        self.ratio = self._arrays.exp(self._log_ratio)
        """(N,): pi / mu, where mu is the policy that acted."""

    def loss(self, policy_loss: float, slope: Array, targets: Array, *, entropy_coef: float, value_coef: float) -> Loss:
        """Return policy_loss - entropy_coef * H(pi) + value_coef * (target - V)^2, means over the valid steps.

        Args:
            policy_loss: the policy's term.
            slope: (N,): its derivative with respect to the log-probabilities of the actions taken.
            targets: (T, B), constants.
        """
        rows, weights, values, returns = self._rows, self.weights, self.values.ravel()[: self._rows], targets.ravel()
        assert slope.shape == (rows,) and targets.shape == self.valid.shape, (slope.shape, targets.shape)
        value = squared_error(values, returns, weights)
        derivative = self._arrays.zeros_like(self._outputs)
        derivative[:rows, :-1] = self._policy.score(self._actions, slope)
        derivative[:rows, :-1] += self._policy.entropy_gradient(-entropy_coef * weights)
        derivative[:rows, -1] = value_coef * value.gradient
        statistics = Statistics(
            policy_loss=policy_loss,
            value_loss=value.value,
            entropy=self._arrays.number(weights @ self._policy.entropy()),
            gradient_norm=0.0,
            ratio=self._arrays.number(weights @ self.ratio),
            kl=self._arrays.number(weights @ (self.ratio - 1 - self._log_ratio)),
            explained_variance=explained_variance(values, returns, weights),
        )
        return Loss(derivative, statistics)
