"""Asynchronous Q-learning and Sarsa: the losses of one rollout.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783: one-step Q (algorithm 1), one-step Sarsa (section 4) and n-step Q
(algorithm S2). Each is the mean over steps of (target - Q(s, a))^2, with targets made of a target network's values and
held constant. There is no importance correction: a target's actions are taken to be those of the greedy policy, or of
the policy that acted.

Outputs are ((T + 1) B, actions + 1), time first; the last one, the state value of actor-critic networks, is unused.
"""

from __future__ import annotations

import numpy as np

from common.rl.algorithms.losses import Booleans, Floats, Loss, discounts, squared_error
from common.rl.algorithms.returns import lambda_returns
from common.rl.algorithms.statistics import Statistics
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def one_step_q(outputs: Floats, rollout: Rollout, section: Algorithm, target: Floats) -> Loss:
    """Targets r + gamma max_a Q(s', a; target network), whose outputs on the same observations are `target`."""
    returns = lambda_returns(*_greedy(rollout, section, target), lambda_=0.0)
    return _loss(outputs, rollout, returns, rollout.valid.numpy())


def n_step_q(outputs: Floats, rollout: Rollout, section: Algorithm, target: Floats) -> Loss:
    """Targets r_t + gamma r_(t+1) + ... up to the end of rollout or episode, and there gamma^n max_a Q(s, a; target).

    So the last step of a rollout has a one-step target and the first the longest one.
    """
    returns = lambda_returns(*_greedy(rollout, section, target), lambda_=1.0)
    return _loss(outputs, rollout, returns, rollout.valid.numpy())


def one_step_sarsa(outputs: Floats, rollout: Rollout, section: Algorithm, target: Floats) -> Loss:
    """Targets r + gamma Q(s', a'; target network), where a' is the action that was taken next.

    Steps after which none was taken are left out: those that a time limit ended, and a rollout's last.
    """
    valid, ended = rollout.valid.numpy(), rollout.terminated.numpy()
    steps, copies = valid.shape
    followed = np.zeros_like(valid)
    followed[:-1] = valid[1:]
    values = np.zeros((steps, copies), np.float32)
    values[:-1] = _taken(target, rollout).reshape(steps, copies)[1:]
    returns = rollout.rewards.numpy() + discounts(rollout, section) * np.where(followed, values, np.float32(0))
    return _loss(outputs, rollout, returns, valid & (followed | ended))


def _loss(outputs: Floats, rollout: Rollout, returns: Floats, counted: Booleans) -> Loss:
    """The mean squared error over the steps that are `counted` (T, B)."""
    weights = counted.ravel().astype(np.float32) / np.float32(max(1, int(counted.sum())))
    values = _taken(outputs, rollout)
    error = squared_error(values, returns.ravel(), weights)
    derivative = np.zeros_like(outputs)
    derivative[np.arange(len(values)), rollout.actions.numpy().ravel()] = error.gradient
    mean = float(weights @ values)
    return Loss(derivative, Statistics(-mean, error.value, entropy=0.0, gradient_norm=0.0, ratio=1.0, kl=0.0))


def _taken(outputs: Floats, rollout: Rollout) -> Floats:
    """Values (T B,) of the actions that were taken."""
    actions = rollout.actions.numpy().ravel()
    values: Floats = outputs[np.arange(len(actions)), actions]
    return values


def _greedy(rollout: Rollout, section: Algorithm, target: Floats) -> tuple[Floats, Floats, Floats, Booleans]:
    """Rewards, discounts, the highest values (T + 1, B) and the valid steps: what returns are made of."""
    values = target[:, :-1].max(axis=1).reshape(-1, rollout.rewards.shape[1])
    return rollout.rewards.numpy(), discounts(rollout, section), values, rollout.valid.numpy()
