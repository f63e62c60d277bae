"""One of several actions, by logits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from common.rl.distributions.base import Actions, Distribution, Floats


class Categorical(Distribution):
    """pi(a) = exp(logit_a) / sum exp(logit)."""

    def __init__(self, logits: Floats) -> None:
        """logits: (N, actions)."""
        self._logits = logits

    def sample(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """Inverts the cumulative distribution: one random number per row; the Gumbel trick needs one per action."""
        logits = self._logits
        shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
        cumulative = np.add.accumulate(np.exp(shifted), axis=1)
        total = cumulative[:, -1]
        # random() < 1, so the threshold is below the total in float64; an action of probability 0 is never drawn last.
        threshold = rng.random(len(logits)) * total
        actions: NDArray[np.int64] = np.add.reduce(cumulative <= threshold[:, np.newaxis], axis=1, dtype=np.int64)
        return actions, shifted[np.arange(len(actions)), actions] - np.log(total)

    def mode(self) -> NDArray[np.int64]:
        actions: NDArray[np.int64] = self._logits.argmax(axis=1)
        return actions

    @cached_property
    def log_probs(self) -> Floats:
        """Log-probabilities (N, actions) of every action."""
        shifted: Floats = self._logits - self._logits.max(axis=1, keepdims=True)
        shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return shifted

    @cached_property
    def _probs(self) -> Floats:
        return np.exp(self.log_probs)

    def log_prob(self, actions: Actions) -> Floats:
        return self.log_probs[np.arange(len(actions)), actions]

    def score(self, actions: Actions, coefficients: Floats) -> Floats:
        """Coefficient * (one at the action - pi)."""
        gradient = self._probs * -coefficients[:, np.newaxis]
        gradient[np.arange(len(actions)), actions] += coefficients
        return gradient

    @cached_property
    def _entropies(self) -> Floats:
        entropies: Floats = -(self._probs * self.log_probs).sum(axis=1)
        return entropies

    def entropy(self) -> Floats:
        return self._entropies

    def entropy_gradient(self, coefficients: Floats) -> Floats:
        """-coefficient * pi * (log pi + entropy)."""
        gradient = self._probs * (self.log_probs + self._entropies[:, np.newaxis])
        gradient *= -coefficients[:, np.newaxis]
        return gradient
