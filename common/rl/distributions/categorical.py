"""Choices by logits: one of several actions, or several choices at once, independent of each other."""

from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.arrays import Array
from common.rl.distributions.base import Actions, Distribution, Floats

_NONE, _MOST = np.float32(0), np.float32(80)
"""The largest exponent that is computed: beyond 88 exp would overflow."""


class Categorical(Distribution):
    """pi(a) = exp(logit_a) / sum exp(logit)."""

    def __init__(self, logits: Array) -> None:
        """logits: (N, actions)."""
        self._logits = logits
        self._arrays = arrays.of(logits)

    def sample(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """Invert the cumulative distribution, by one random number per row; the Gumbel trick needs one per action."""
        logits = self._logits
        if logits.shape[1] == 2:
            return _one_of_two(logits, rng) if len(logits) != 1 else _one_of_two_once(logits, rng)
        shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
        cumulative = np.add.accumulate(np.exp(shifted), axis=1)
        total = cumulative[:, -1]
        # random() < 1, so the threshold is below the total in float64: last actions of probability 0 are never drawn.
        threshold = rng.random(len(logits)) * total
        actions: NDArray[np.int64] = np.add.reduce(cumulative <= threshold[:, np.newaxis], axis=1, dtype=np.int64)
        return actions, shifted[np.arange(len(actions)), actions] - np.log(total)

    def mode(self) -> NDArray[np.int64]:
        actions: NDArray[np.int64] = self._logits.argmax(axis=1)
        return actions

    @cached_property
    def log_probs(self) -> Array:
        """Log-probabilities (N, actions) of every action."""
        return self._arrays.log_softmax(self._logits)

    @cached_property
    def _probs(self) -> Array:
        return self._arrays.exp(self.log_probs)

    def log_prob(self, actions: Actions) -> Array:
        return self._arrays.pick(self.log_probs, actions)

    def score(self, actions: Actions, coefficients: Array) -> Array:
        """Return coefficient * (one-hot action - pi)."""
        gradient = self._probs * -coefficients[:, None]
        self._arrays.add_at(gradient, actions, coefficients)
        return gradient

    @cached_property
    def _entropies(self) -> Array:
        return -(self._probs * self.log_probs).sum(axis=1)

    def entropy(self) -> Array:
        return self._entropies

    def entropy_gradient(self, coefficients: Array) -> Array:
        """Return -coefficient * pi * (log pi + entropy)."""
        gradient = self._probs * (self.log_probs + self._entropies[:, None])
        gradient *= -coefficients[:, None]
        return gradient


def _one_of_two(logits: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Do the same as `Categorical.sample` for (N, 2): equal actions from equal random numbers, in 2/3 of the time."""
    apart = logits[:, 1] - logits[:, 0]
    # Action 0 where the number is below its probability, 1 / (1 + exp(apart)).
    second = rng.random(len(logits)) * (1 + np.exp(np.minimum(apart, _MOST))) >= 1
    return second.astype(np.int64), -np.logaddexp(0, np.where(second, -apart, apart))


def _one_of_two_once(logits: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Do the same as `_one_of_two` for (1, 2), to the last bit, with scalars: they take a tenth of an array's time."""
    apart = logits[0, 1] - logits[0, 0]
    second = rng.random() * float(1 + np.exp(_MOST if apart > _MOST else apart)) >= 1
    return np.array([second], np.int64), -np.array([np.logaddexp(_NONE, -apart if second else apart)])


class MultiCategorical(Distribution):
    """pi(a) is the product of each choice's probability: log-probabilities and entropies add up."""

    def __init__(self, spec: ActionSpec, outputs: Array) -> None:
        """outputs: (N, sum of spec.sizes), the logits of the first choice first."""
        self._shape = spec.shape
        self._arrays = arrays.of(outputs)
        ends = list(accumulate(spec.sizes))
        slices = [slice(end - size, end) for end, size in zip(ends, spec.sizes, strict=True)]
        self._parts = [Categorical(outputs[:, part]) for part in slices]

    def sample(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        drawn = [part.sample(rng) for part in self._parts]
        log_probs: Floats = np.add.reduce([log_prob for _, log_prob in drawn])
        return self._joined([actions for actions, _ in drawn]), log_probs

    def mode(self) -> NDArray[np.int64]:
        return self._joined([part.mode() for part in self._parts])

    def log_prob(self, actions: Actions) -> Array:
        columns = self._columns(actions)
        return sum(part.log_prob(one) for part, one in zip(self._parts, columns, strict=True))

    def score(self, actions: Actions, coefficients: Array) -> Array:
        columns = self._columns(actions)
        scores = [part.score(one, coefficients) for part, one in zip(self._parts, columns, strict=True)]
        return self._arrays.concatenated(scores, axis=1)

    def entropy(self) -> Array:
        return sum(part.entropy() for part in self._parts)

    def entropy_gradient(self, coefficients: Array) -> Array:
        return self._arrays.concatenated([part.entropy_gradient(coefficients) for part in self._parts], axis=1)

    def _columns(self, actions: Actions) -> Actions:
        """Return the actions as (choices, N)."""
        return actions.reshape(len(actions), len(self._parts)).T

    def _joined(self, columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.stack(columns, axis=1).reshape(-1, *self._shape)
