"""The algorithms by name: the only place where settings become arguments of losses and of exploration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.algorithms import a3c, ppo, q_learning
from common.rl.algorithms.exploration import TRAINED_EPSILON, EpsilonGreedy, Exploration, Sampling, draw_finals
from common.rl.algorithms.losses import Floats, Loss
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

Target = Floats | None


@dataclass(frozen=True)
class Method:
    """One algorithm."""

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


def _actor_critic(
    section: Algorithm,
    outputs: Floats,
    rollout: Rollout,
    action: ActionSpec,
    _target: Target,
    *,
    correction: Literal["vtrace", "none"] | None = None,
) -> Loss:
    return a3c.loss(
        outputs,
        rollout,
        action,
        gamma=section.gamma,
        gae_lambda=section.gae_lambda,
        entropy_coef=section.entropy_coef,
        value_coef=section.value_coef,
        normalize_advantages=section.normalize_advantages,
        correction=correction or section.correction,
        rho_clip=section.rho_clip,
        c_clip=section.c_clip,
    )


def _ppo(section: Algorithm, outputs: Floats, rollout: Rollout, action: ActionSpec, _target: Target) -> Loss:
    return ppo.loss(
        outputs,
        rollout,
        action,
        gamma=section.gamma,
        gae_lambda=section.gae_lambda,
        entropy_coef=section.entropy_coef,
        value_coef=section.value_coef,
        normalize_advantages=section.normalize_advantages,
        clip_range=section.clip_range,
    )


def _values(loss: Callable[..., Loss]) -> Method:
    def bound(section: Algorithm, outputs: Floats, rollout: Rollout, _action: ActionSpec, target: Target) -> Loss:
        return loss(outputs, rollout, target, gamma=section.gamma)

    return Method(bound, has_target=True)


METHODS: dict[str, Method] = {
    "a3c": Method(_actor_critic),
    "one-step-q": _values(q_learning.one_step_q),
    "n-step-q": _values(q_learning.n_step_q),
    "one-step-sarsa": _values(q_learning.one_step_sarsa),
    "a2c": Method(partial(_actor_critic, correction="none"), corrects=False),
    "vtrace": Method(partial(_actor_critic, correction="vtrace")),
    "ppo": Method(_ppo, repeats=True),
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
        finals = draw_finals(section.epsilon_finals, section.epsilon_probabilities, num_envs, rng)
    return EpsilonGreedy(finals, anneal_frames=section.epsilon_frames, frames=frames, rng=rng)
