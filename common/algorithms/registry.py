"""The algorithms by name, and what the daemons need to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.algorithms import a3c, q_learning
from common.algorithms.acting import Acting, EpsilonGreedy, Sampling
from common.algorithms.losses import Floats, Loss
from common.algorithms.rollout import Rollout
from common.settings.sections import Algorithm


@dataclass(frozen=True)
class Method:
    """One algorithm."""

    loss: Callable[[Floats, Rollout, Algorithm, Any], Loss]
    """Of the network's outputs ((T + 1) B, width + 1) on a rollout's observations, time first, the value last; of the
    rollout, and of the algorithm's section; last the action spec, or with `values` the target network's outputs."""
    repeats: bool = False
    """Whether the learner goes over a batch `algorithm.epochs` times, in `algorithm.minibatches` parts."""
    values: bool = False
    """The first outputs are values of the actions: they are discrete, and the learner keeps a target network."""
    acting: type[Acting] = Sampling


METHODS: dict[str, Method] = {
    "a3c": Method(a3c.loss),
    "one-step-q": Method(q_learning.one_step_q, values=True, acting=EpsilonGreedy),
    "n-step-q": Method(q_learning.n_step_q, values=True, acting=EpsilonGreedy),
    "one-step-sarsa": Method(q_learning.one_step_sarsa, values=True, acting=EpsilonGreedy),
}
