"""The algorithms by name, and what the daemons need to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a2c, a3c, impala, ppo, q_learning
from common.rl.algorithms.exploration import Acting, EpsilonGreedy, Sampling
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


@dataclass(frozen=True)
class Method:
    """One algorithm that learns a policy."""

    loss: Callable[[Floats, Rollout, Algorithm, ActionSpec], Loss]
    """Of the network's outputs ((T + 1) B, width + 1) on a rollout's observations, time first, the value last; of the
    rollout, the algorithm's section and what the actions are."""
    corrects: bool = True
    """Whether a rollout may be of several policies, since the loss minds the probability of each step."""
    repeats: bool = False
    """Whether a rollout is gone over `algorithm.epochs` times; by the learner in `algorithm.minibatches` parts."""
    acting: type[Acting] = Sampling


@dataclass(frozen=True)
class ValueMethod:
    """One algorithm that learns values of actions, which are discrete, with a target network that the learner keeps."""

    loss: Callable[[Floats, Rollout, Algorithm, Floats], Loss]
    """As a Method's, but for the last argument: the target network's outputs on the same observations."""
    repeats: bool = False
    acting: type[Acting] = EpsilonGreedy


METHODS: dict[str, Method | ValueMethod] = {
    "a3c": Method(a3c.loss),
    "one-step-q": ValueMethod(q_learning.one_step_q),
    "n-step-q": ValueMethod(q_learning.n_step_q),
    "one-step-sarsa": ValueMethod(q_learning.one_step_sarsa),
    "a2c": Method(a2c.loss, corrects=False),
    "vtrace": Method(impala.loss),
    "ppo": Method(ppo.loss, repeats=True),
}
