"""The algorithms by name: their losses and their exploration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a3c, ppo, q_learning
from common.rl.algorithms.exploration import TRAINED_EPSILON, EpsilonGreedy, Exploration, Sampling
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


@dataclass(frozen=True)
class Method:
    """One algorithm."""

    loss: Callable[[Algorithm, Floats, Rollout, ActionSpec, Any], Loss]
    """Loss of the network's outputs ((T + 1) B, width + 1) on a rollout; last come the target network's, or None."""
    has_target: bool = False
    """Learns the values of discrete actions with a target network, which the learner keeps; explores by epsilon."""
    corrects: bool = True
    """The loss uses per-step behaviour log-probs, so that one rollout may mix policy versions."""
    repeats: bool = False
    """Each rollout is gone over `algorithm.epochs` times; in the learner, in `algorithm.minibatches` parts."""


METHODS: dict[str, Method] = {
    "a3c": Method(a3c.loss),
    "one-step-q": Method(q_learning.one_step_q, has_target=True),
    "n-step-q": Method(q_learning.n_step_q, has_target=True),
    "one-step-sarsa": Method(q_learning.one_step_sarsa, has_target=True),
    "a2c": Method(partial(a3c.loss, correction="none"), corrects=False),
    "vtrace": Method(partial(a3c.loss, correction="vtrace")),
    "ppo": Method(ppo.loss, repeats=True),
}


def exploration(
    section: Algorithm, action: ActionSpec, num_envs: int, rng: np.random.Generator, frames: Tensor | None
) -> Exploration:
    """The algorithm's exploration for a batch of `num_envs` environments.

    frames: (1,), frames of the whole run so far, which may change in place; None: training is over.
    """
    if not METHODS[section.kind].has_target:
        return Sampling(action, rng)
    if frames is None:
        finals = np.full(num_envs, TRAINED_EPSILON)
    else:
        p = np.array(section.epsilon_probabilities)  # need not add up to exactly 1
        finals = rng.choice(section.epsilon_finals, num_envs, p=p / p.sum())
    return EpsilonGreedy(finals, anneal_frames=section.epsilon_frames, frames=frames, rng=rng)
