"""From a network's outputs to actions, in training and when a trained agent is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Floats
from common.rl.distributions.registry import distribution

TRAINED_EPSILON = 0.05
"""Epsilon of a trained agent whose actions are drawn, as Mnih et al. 2015 evaluate."""


class Exploration(ABC):
    """How actions are chosen for a batch of environments."""

    @abstractmethod
    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        """Draw actions (B, *action.shape) for outputs (B, action.width); return them and log-probabilities (B,)."""

    @abstractmethod
    def best(self, outputs: Floats) -> Actions:
        """The actions of the highest probability or value, for outputs (N, action.width)."""


@dataclass(eq=False)
class Sampling(Exploration):
    """Draws from the policy that the outputs describe."""

    action: ActionSpec
    rng: np.random.Generator

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        return distribution(self.action, outputs).sample(self.rng)

    def best(self, outputs: Floats) -> Actions:
        return distribution(self.action, outputs).mode()


@dataclass(eq=False)
class EpsilonGreedy(Exploration):
    """The action of the highest value, or with probability epsilon any action, all with the same probability.

    Each environment's epsilon falls linearly from 1 to a final value drawn for it once. See Mnih et al. 2016,
    https://arxiv.org/abs/1602.01783, section 4.
    """

    finals: NDArray[np.float64]
    """(B,): the final epsilon of each environment."""
    _: KW_ONLY
    anneal_frames: int
    """Frames of the whole run over which epsilon falls; 0: it is final at once."""
    frames: Tensor | None
    """(1,): frames of the whole run so far, read at each draw; None: epsilon is final."""
    rng: np.random.Generator

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """(B,): the current ones."""
        if self.frames is None or not self.anneal_frames:
            return self.finals
        left = 1 - float(self.frames) / self.anneal_frames
        return self.finals + min(max(0.0, left), 1.0) * (1 - self.finals)

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        epsilons, width = self.epsilons, outputs.shape[1]
        best = self.best(outputs)
        explores = self.rng.random(len(best)) < epsilons
        actions = np.where(explores, self.rng.integers(width, size=len(best)), best)
        probabilities = epsilons / width + np.where(actions == best, 1 - epsilons, 0.0)
        return actions, np.log(probabilities).astype(np.float32)

    def best(self, outputs: Floats) -> Actions:
        actions: Actions = outputs.argmax(axis=1)
        return actions
