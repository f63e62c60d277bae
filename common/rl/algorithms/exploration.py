"""From a network's outputs to actions, in training and when a trained agent is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Floats
from common.rl.distributions.registry import distribution
from common.settings.sections import Algorithm

SHOWN_EPSILON = 0.05
"""Of a trained agent that is asked for drawn actions: as Mnih et al. 2015 evaluate."""


@dataclass(frozen=True, eq=False)
class Acting(ABC):
    """The rule by which a batch of environments is acted in."""

    section: Algorithm
    action: ActionSpec
    copies: int
    """Environments in the batch."""
    rng: np.random.Generator
    frames: Tensor | None
    """(1,): frames of the whole run so far, followed as it changes; None: training is over."""

    @abstractmethod
    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        """Draw the actions of `copies` environments from outputs (copies, action.width); their log-probabilities."""

    @abstractmethod
    def best(self, outputs: Floats) -> Actions:
        """The actions taken to be best, for outputs (N, action.width)."""


class Sampling(Acting):
    """Draws from the policy that the outputs describe."""

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        """As `Acting.draw`."""
        return distribution(self.action, outputs).sample(self.rng)

    def best(self, outputs: Floats) -> Actions:
        """As `Acting.best`: the most probable ones."""
        return distribution(self.action, outputs).mode()


class EpsilonGreedy(Acting):
    """The action of the highest value; with probability epsilon any, all alike.

    Each environment's epsilon falls from 1, linearly over `algorithm.epsilon_frames` frames of the run, to a final
    value drawn for it once. See Mnih et al. 2016, https://arxiv.org/abs/1602.01783, section 4.
    """

    @cached_property
    def finals(self) -> NDArray[np.float64]:
        """Epsilon in the end, (copies,)."""
        if self.frames is None:
            return np.full(self.copies, SHOWN_EPSILON)
        probabilities = np.array(self.section.epsilon_probabilities)
        return self.rng.choice(self.section.epsilon_finals, self.copies, p=probabilities / probabilities.sum())

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """Epsilon now, (copies,)."""
        annealed = self.section.epsilon_frames
        left = 0.0 if self.frames is None or not annealed else 1 - float(self.frames) / annealed
        return self.finals + min(max(0.0, left), 1.0) * (1 - self.finals)

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        """As `Acting.draw`."""
        epsilons, width = self.epsilons, self.action.width
        best = self.best(outputs)
        explores = self.rng.random(len(best)) < epsilons
        actions = np.where(explores, self.rng.integers(width, size=len(best)), best)
        probabilities = epsilons / width + np.where(actions == best, 1 - epsilons, 0.0)
        return actions, np.log(probabilities).astype(np.float32)

    def best(self, outputs: Floats) -> Actions:
        """As `Acting.best`: those of the highest value."""
        actions: Actions = outputs.argmax(axis=1)
        return actions
