"""The algorithms by name, and what the daemons need to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.algorithms import a2c, a3c, impala, ppo, q_learning
from common.algorithms.acting import Acting, EpsilonGreedy, Sampling
from common.algorithms.exchanges import EXCHANGES
from common.algorithms.losses import Floats, Loss
from common.algorithms.rollout import Rollout
from common.settings.sections import Algorithm


@dataclass(frozen=True)
class Method:
    """One algorithm."""

    loss: Callable[[Floats, Rollout, Algorithm, Any], Loss]
    """Of the network's outputs ((T + 1) B, width + 1) on a rollout's observations, time first, the value last; of the
    rollout, and of the algorithm's section; last the action spec, or with `values` the target network's outputs."""
    exchanges: tuple[str, ...]
    """Values of exchange.kind it can do with; the first is what `auto` stands for."""
    corrects: bool = True
    """Whether a rollout may be of several policies, since the loss minds the probability of each step."""
    repeats: bool = False
    """Whether a rollout is gone over `algorithm.epochs` times; by the learner in `algorithm.minibatches` parts."""
    values: bool = False
    """The first outputs are values of the actions: they are discrete, and the learner keeps a target network."""
    acting: type[Acting] = Sampling


def _values(name: str, loss: Callable[[Floats, Rollout, Algorithm, Any], Loss]) -> Method:
    return Method(loss, EXCHANGES[name], values=True, acting=EpsilonGreedy)


METHODS: dict[str, Method] = {
    "a3c": Method(a3c.loss, EXCHANGES["a3c"]),
    "one-step-q": _values("one-step-q", q_learning.one_step_q),
    "n-step-q": _values("n-step-q", q_learning.n_step_q),
    "one-step-sarsa": _values("one-step-sarsa", q_learning.one_step_sarsa),
    "a2c": Method(a2c.loss, EXCHANGES["a2c"], corrects=False),
    "vtrace": Method(impala.loss, EXCHANGES["vtrace"]),
    "ppo": Method(ppo.loss, EXCHANGES["ppo"], repeats=True),
}
