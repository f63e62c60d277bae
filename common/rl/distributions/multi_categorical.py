"""Several choices at once, independent of each other, by logits side by side."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Distribution, Floats
from common.rl.distributions.categorical import Categorical


class MultiCategorical(Distribution):
    """pi(a) is the product of each choice's probability: log-probabilities and entropies add up."""

    def __init__(self, spec: ActionSpec, outputs: Floats) -> None:
        """outputs: (N, sum of spec.sizes), the logits of the first choice first."""
        self._shape = spec.shape
        ends = list(accumulate(spec.sizes))
        slices = [slice(end - size, end) for end, size in zip(ends, spec.sizes, strict=True)]
        self._parts = [Categorical(outputs[:, part]) for part in slices]

    def sample(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        drawn = [part.sample(rng) for part in self._parts]
        log_probs: Floats = np.add.reduce([log_prob for _, log_prob in drawn])
        return self._joined([actions for actions, _ in drawn]), log_probs

    def mode(self) -> NDArray[np.int64]:
        return self._joined([part.mode() for part in self._parts])

    def log_prob(self, actions: Actions) -> Floats:
        columns = self._columns(actions)
        total: Floats = np.add.reduce([part.log_prob(one) for part, one in zip(self._parts, columns, strict=True)])
        return total

    def score(self, actions: Actions, coefficients: Floats) -> Floats:
        columns = self._columns(actions)
        scores = [part.score(one, coefficients) for part, one in zip(self._parts, columns, strict=True)]
        return np.concatenate(scores, axis=1)

    def entropy(self) -> Floats:
        total: Floats = np.add.reduce([part.entropy() for part in self._parts])
        return total

    def entropy_gradient(self, coefficients: Floats) -> Floats:
        return np.concatenate([part.entropy_gradient(coefficients) for part in self._parts], axis=1)

    def _columns(self, actions: Actions) -> Actions:
        """(choices, N)."""
        return actions.reshape(len(actions), len(self._parts)).T

    def _joined(self, columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.stack(columns, axis=1).reshape(-1, *self._shape)
