"""Proximal policy optimisation: several steps on the same rollout, each of which may change the policy only a little.

Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equations 7 and 9. Either the learner goes over the rollout in
epochs and minibatches of steps, with advantages estimated once, before the first minibatch; with an LSTM, minibatches
are whole environments, and advantages are estimated anew in each (learner/parameters/batch_trainer.py). Or each actor
computes one gradient per epoch, also with advantages estimated anew (actor/players/gradients.py): the distributed form
of Heess et al. 2017, https://arxiv.org/abs/1707.02286, with the clipped ratio.
"""

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.actor_critic import ActorCritic
from common.rl.algorithms.losses import Loss, discounts, normalized
from common.rl.algorithms.returns import lambda_returns
from common.rl.arrays import Array
from common.rl.rollout import Rollout


def steps(outputs: Array, rollout: Rollout, *, gamma: float, gae_lambda: float) -> Rollout:
    """Return `rollout.apart` with GAE(lambda)'s advantages, and lambda-returns as targets of the values.

    Args:
        outputs: ((T + 1) B, width + 1): last the value.
    """
    values = outputs[:, -1].reshape(-1, rollout.rewards.shape[1])
    return rollout.apart(*_targets_and_advantages(values, rollout, gamma, gae_lambda))


def loss(
    outputs: Array,
    rollout: Rollout,
    action: ActionSpec,
    *,
    gamma: float,
    gae_lambda: float,
    entropy_coef: float,
    value_coef: float,
    normalize_advantages: bool,
    clip_range: float,
) -> Loss:
    """Return the mean over the valid steps of -min(ratio * advantage, clip(ratio, 1 - clip_range, 1 + clip_range) *
    advantage) - entropy_coef * H(pi) + value_coef * (target - V)^2, where targets and advantages are constants.

    The ratio is to the policy that acted. A rollout that has no targets and advantages gets them from these outputs.

    Args:
        outputs: ((T + 1) B, action.width + 1): the policy's numbers, and last the value; (N, action.width + 1) for a
            rollout of `Rollout.apart`.
    """
    now = ActorCritic(outputs, rollout, action)
    targets, advantages = rollout.targets, rollout.advantages
    if targets is None or advantages is None:
        targets, advantages = _targets_and_advantages(now.values, rollout, gamma, gae_lambda)
    if normalize_advantages:
        advantages = normalized(advantages, now.weights)
    surrogate, slope = _clipped(now.ratio, advantages.ravel(), clip_range)
    policy_loss = arrays.of(outputs).number(-(now.weights @ surrogate))
    by_log_prob = -now.weights * slope * now.ratio
    whole = now.loss(policy_loss, by_log_prob, targets, entropy_coef=entropy_coef, value_coef=value_coef)
    on = arrays.of(outputs)
    clipped = on.number(now.weights @ on.kept(abs(now.ratio - 1) > clip_range, 1.0))
    return whole._replace(statistics=whole.statistics._replace(clip_fraction=clipped))


def _targets_and_advantages(values: Array, rollout: Rollout, gamma: float, gae_lambda: float) -> tuple[Array, Array]:
    targets = lambda_returns(rollout.rewards, discounts(rollout, gamma), values, rollout.valid, gae_lambda)
    return targets, targets - values[:-1]


def _clipped(ratio: Array, advantages: Array, clip_range: float) -> tuple[Array, Array]:
    """Return the clipped surrogate (N,) and its derivative with respect to the ratio: 0 where the clipped term counts.

    The clipped term counts where it is the smaller one.
    """
    on = arrays.of(ratio)
    bounded = on.clipped(ratio, 1 - clip_range, 1 + clip_range) * advantages
    plain = ratio * advantages
    return on.smaller(plain, bounded), on.kept(plain <= bounded, advantages)
