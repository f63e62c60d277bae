"""From a network's outputs to actions, in training and when a trained agent is shown."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.rl.action_masks import FORBIDDEN
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
        """Return the actions that the network takes for best, for outputs (N, action.width)."""


class Sampling(Exploration):
    """Draws from the policy that the outputs describe."""

    def __init__(self, action: ActionSpec, rng: np.random.Generator) -> None:
        self._action = action
        self._rng = rng

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        return distribution(self._action, outputs).sample(self._rng)

    def best(self, outputs: Floats) -> Actions:
        return distribution(self._action, outputs).mode()


class EpsilonGreedy(Exploration):
    """Takes the action of the highest value or, with probability epsilon, any allowed action with equal probability.

    Each environment's epsilon falls linearly from 1 to a final value drawn for it once. See Mnih et al. 2016,
    https://arxiv.org/abs/1602.01783, section 4.
    """

    def __init__(
        self, finals: NDArray[np.float64], *, anneal_frames: int, frames: Floats | None, rng: np.random.Generator
    ) -> None:
        """finals: (B,), the final epsilon of each environment.

        anneal_frames: frames of the whole run over which epsilon falls; 0: it is final at once.
        frames: (1,), frames of the whole run so far; read at each draw. None: epsilon is final.
        """
        self.finals = finals
        self._anneal_frames = anneal_frames
        self._frames = frames
        self._rng = rng

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """The current epsilon of each environment, (B,)."""
        if self._frames is None or not self._anneal_frames:
            return self.finals
        left = 1 - float(self._frames[0]) / self._anneal_frames
        return self.finals + min(max(0.0, left), 1.0) * (1 - self.finals)

    def draw(self, outputs: Floats) -> tuple[Actions, Floats]:
        epsilons, best = self.epsilons, self.best(outputs)
        explores = self._rng.random(len(best)) < epsilons
        any_one, choices = self._any(outputs)
        actions = np.where(explores, any_one, best)
        probabilities = epsilons / choices + np.where(actions == best, 1 - epsilons, 0.0)
        return actions, np.log(probabilities).astype(np.float32)

    def _any(self, outputs: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64] | int]:
        """Draw actions (B,) from those that are not FORBIDDEN; return them, and how many each was drawn from."""
        count, width = outputs.shape
        allowed = outputs != np.float32(FORBIDDEN)
        if allowed.all():
            return self._rng.integers(width, size=(count,)), width
        ranks = allowed.cumsum(axis=1)
        chosen = self._rng.integers(ranks[:, -1])
        return np.count_nonzero(ranks <= chosen[:, np.newaxis], axis=1), ranks[:, -1]

    def best(self, outputs: Floats) -> Actions:
        actions: Actions = outputs.argmax(axis=1)
        return actions


def draw_finals(
    finals: Sequence[float], probabilities: Sequence[float], num_envs: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw a final epsilon (B,) for each environment; the probabilities need not add up to exactly 1."""
    p = np.array(probabilities)
    return rng.choice(finals, num_envs, p=p / p.sum())
