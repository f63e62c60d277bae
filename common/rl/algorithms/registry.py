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
    the target network's outputs on the same observations, if the algorithm has a target network, else None."""
    has_target: bool = False
    """True if it learns the values of discrete actions with a target network, which the learner keeps; exploration is
    epsilon-greedy."""
    corrects: bool = True
    """True if the loss uses per-step behaviour log-probs, so that one rollout may mix policy versions."""
    steps: Callable[[Algorithm, Floats, Rollout], Rollout] | None = None
    """For an algorithm that goes over each rollout `algorithm.epochs` times, in the learner in `algorithm.minibatches`
    parts: returns a rollout's steps, which are split into the parts, given the network's outputs before the first part.
    None for other algorithms."""

    @property
    def repeats(self) -> bool:
        return self.steps is not None


def _bound(loss: Callable[..., Loss], **fixed: Any) -> Callable[[Algorithm, Floats, Rollout, ActionSpec, Target], Loss]:
    """Return the loss with settings as its keyword arguments, by their names, except for those that are `fixed`."""
    names = _settings(loss)
    has_target = "target" in signature(loss).parameters

    def bound(section: Algorithm, outputs: Floats, rollout: Rollout, action: ActionSpec, target: Target) -> Loss:
        numbers = {name: getattr(section, name) for name in names} | fixed
        return loss(outputs, rollout, target if has_target else action, **numbers)

    return bound


def _steps(steps: Callable[..., Rollout]) -> Callable[[Algorithm, Floats, Rollout], Rollout]:
    names = _settings(steps)
    return lambda section, outputs, rollout: steps(outputs, rollout, **{n: getattr(section, n) for n in names})


def _settings(function: Callable[..., Any]) -> list[str]:
    """Return the names of its keyword-only arguments, which are names of settings."""
    return [name for name, one in signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY]


METHODS: dict[str, Method] = {
    "a3c": Method(_bound(a3c.loss)),
    "one-step-q": Method(_bound(q_learning.one_step_q), has_target=True),
    "n-step-q": Method(_bound(q_learning.n_step_q), has_target=True),
    "one-step-sarsa": Method(_bound(q_learning.one_step_sarsa), has_target=True),
    "a2c": Method(_bound(a3c.loss, correction="none"), corrects=False),
    "vtrace": Method(_bound(a3c.loss, correction="vtrace")),
    "ppo": Method(_bound(ppo.loss), corrects=False, steps=_steps(ppo.steps)),
}


def exploration(
    section: Algorithm, action: ActionSpec, num_envs: int, rng: np.random.Generator, frames: Floats | None
) -> Exploration:
    """Return the algorithm's exploration for a batch of `num_envs` environments.

    frames: (1,), frames of the whole run so far, which may change in place; None: training is over.
    """
    if not METHODS[section.kind].has_target:
        return Sampling(action, rng)
    if frames is None:
        finals = np.full(num_envs, TRAINED_EPSILON)
    else:
        finals = draw_finals(section.epsilon_finals, section.epsilon_probabilities, num_envs, rng)
    return EpsilonGreedy(finals, anneal_frames=section.epsilon_frames, frames=frames, rng=rng)
