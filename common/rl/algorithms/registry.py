"""The algorithms by name: the only place where settings become arguments of losses and of exploration."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a3c, ppo, q_learning
from common.rl.algorithms.exploration import TRAINED_EPSILON, EpsilonGreedy, Exploration, Sampling, draw_finals
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

Target = Floats | None


@dataclass(frozen=True)
class Method:
    loss: Callable[[Algorithm, Floats, Rollout, ActionSpec, Target], Loss]
    """Loss of the network's outputs ((T + 1) B, width + 1) on a rollout's observations, time first. The last argument:
    the target network's outputs on the same observations, of an algorithm that has one."""
    has_target: bool = False
    """True if it learns the values of discrete actions with a target network, which the learner keeps; it explores by
    epsilon."""
    corrects: bool = True
    """True if the loss uses per-step behaviour log-probs, so that one rollout may mix policy versions."""
    repeats: bool = False
    """True if each rollout is gone over `algorithm.epochs` times; in the learner, in `algorithm.minibatches` parts."""


def _bound(loss: Callable[..., Loss], **fixed: Any) -> Callable[[Algorithm, Floats, Rollout, ActionSpec, Target], Loss]:
    """The loss with the settings as its keyword arguments, by their names, but for those that are `fixed`."""
    parameters = signature(loss).parameters
    names = [name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY]
    has_target = "target" in parameters

    def bound(section: Algorithm, outputs: Floats, rollout: Rollout, action: ActionSpec, target: Target) -> Loss:
        numbers = {name: getattr(section, name) for name in names} | fixed
        return loss(outputs, rollout, target if has_target else action, **numbers)

    return bound


METHODS: dict[str, Method] = {
    "a3c": Method(_bound(a3c.loss)),
    "one-step-q": Method(_bound(q_learning.one_step_q), has_target=True),
    "n-step-q": Method(_bound(q_learning.n_step_q), has_target=True),
    "one-step-sarsa": Method(_bound(q_learning.one_step_sarsa), has_target=True),
    "a2c": Method(_bound(a3c.loss, correction="none"), corrects=False),
    "vtrace": Method(_bound(a3c.loss, correction="vtrace")),
    "ppo": Method(_bound(ppo.loss), corrects=False, repeats=True),
}


def exploration(
    section: Algorithm, action: ActionSpec, num_envs: int, rng: np.random.Generator, frames: Floats | None
) -> Exploration:
    """The algorithm's exploration for a batch of `num_envs` environments.

    frames: (1,), frames of the whole run so far, which may change in place; None: training is over.
    """
    if not METHODS[section.kind].has_target:
        return Sampling(action, rng)
    if frames is None:
        finals = np.full(num_envs, TRAINED_EPSILON)
    else:
        finals = draw_finals(section.epsilon_finals, section.epsilon_probabilities, num_envs, rng)
    return EpsilonGreedy(finals, anneal_frames=section.epsilon_frames, frames=frames, rng=rng)
