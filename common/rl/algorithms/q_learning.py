"""Asynchronous Q-learning and Sarsa: the losses of one rollout.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783: one-step Q (algorithm 1), one-step Sarsa (section 4) and n-step Q
(algorithm S2). Each is the mean over steps of (target - Q(s, a))^2; the targets are made of a target network's values
and are constants. There is no importance correction.

`outputs` and `target` (the target network's outputs on the same observations) are ((T + 1) B, actions + 1), time first.
The last column, the state value of actor-critic networks, is unused.
"""

from common.rl import arrays
from common.rl.algorithms.losses import Loss, discounts, explained_variance, squared_error
from common.rl.algorithms.returns import lambda_returns
from common.rl.algorithms.statistics import Statistics
from common.rl.arrays import Array
from common.rl.rollout import Rollout


def one_step_q(outputs: Array, rollout: Rollout, target: Array, *, gamma: float) -> Loss:
    """Return the loss with targets r + gamma max_a Q(s', a; target network)."""
    return _q_loss(outputs, rollout, target, gamma, lambda_=0.0)


def n_step_q(outputs: Array, rollout: Rollout, target: Array, *, gamma: float) -> Loss:
    """Return the loss with n-step targets: r_t + gamma r_(t+1) + ... + gamma^n max_a Q(s, a; target network).

    Rewards are summed up to the end of the rollout or the episode, so the last step of a rollout has a one-step target
    and the first has the longest.
    """
    return _q_loss(outputs, rollout, target, gamma, lambda_=1.0)


def one_step_sarsa(outputs: Array, rollout: Rollout, target: Array, *, gamma: float) -> Loss:
    """Return the loss with targets r + gamma Q(s', a'; target network), where a' is the action taken next.

    Steps without a next action are left out: those that a time limit ended, and a rollout's last.
    """
    valid, ended, on = rollout.valid, rollout.terminated, arrays.of(outputs)
    followed, values = on.zeros_like(valid), on.zeros_like(rollout.rewards)
    followed[:-1] = valid[1:]
    values[:-1] = _taken(target, rollout).reshape(valid.shape)[1:]
    returns = rollout.rewards + discounts(rollout, gamma) * on.kept(followed, values)
    return _loss(outputs, rollout, returns, valid & (followed | ended))


def _q_loss(outputs: Array, rollout: Rollout, target: Array, gamma: float, lambda_: float) -> Loss:
    valid = rollout.valid
    values = arrays.of(target).largest(target[:, :-1]).reshape(-1, valid.shape[1])
    returns = lambda_returns(rollout.rewards, discounts(rollout, gamma), values, valid, lambda_)
    return _loss(outputs, rollout, returns, valid)


def _loss(outputs: Array, rollout: Rollout, returns: Array, counted: Array) -> Loss:
    """Return the mean squared error over the steps that are `counted` (T, B)."""
    on = arrays.of(outputs)
    weights = on.mean_weights(counted)
    values = _taken(outputs, rollout)
    error = squared_error(values, returns.ravel(), weights)
    derivative = on.zeros_like(outputs)
    on.add_at(derivative[: len(values)], rollout.actions.ravel(), error.gradient)
    policy_loss = on.number(-(weights @ values))
    explained = explained_variance(values, returns.ravel(), weights)
    figures = {"entropy": 0.0, "gradient_norm": 0.0, "ratio": 1.0, "kl": 0.0, "explained_variance": explained}
    return Loss(derivative, Statistics(policy_loss, error.value, **figures))


def _taken(outputs: Array, rollout: Rollout) -> Array:
    """Return values (T B,) of the actions taken."""
    steps, num_envs = rollout.actions.shape
    assert len(outputs) == (steps + 1) * num_envs, (outputs.shape, rollout.actions.shape)
    return arrays.of(outputs).pick(outputs[: steps * num_envs], rollout.actions.ravel())
