"""The interface of a distribution of actions."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from common.rl.arrays import Array

Floats = NDArray[np.float32]
Actions = Array
"""(N, *shape), where shape is that of the action spec."""


class Distribution(ABC):
    """The distributions of actions in N states. `sample` works on the host, all else where the outputs are."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> tuple[Actions, Floats]:
        """Draw an action per state; return them and their log-probabilities (N,)."""

    @abstractmethod
    def mode(self) -> Actions:
        """Return the most probable action per state."""

    @abstractmethod
    def log_prob(self, actions: Actions) -> Array:
        """Return log-probabilities (N,) of one action per state."""

    @abstractmethod
    def score(self, actions: Actions, coefficients: Array) -> Array:
        """Return the derivative (N, width) of sum(coefficient * log pi(action)) with respect to the network's outputs.

        coefficients: (N,).
        """

    @abstractmethod
    def entropy(self) -> Array:
        """Return entropies (N,), in nats."""

    @abstractmethod
    def entropy_gradient(self, coefficients: Array) -> Array:
        """Return the derivative (N, width) of sum(coefficient * entropy) with respect to the network's outputs.

        coefficients: (N,).
        """
