"""The interface of a distribution of actions."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from common.rl.arrays import Array

Floats = NDArray[np.float32]
Actions = Array
"""(N, *shape) of the action spec's shape."""


class Distribution(ABC):
    """The distributions of the actions of N states; drawn on the host, and otherwise where the outputs are."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> tuple[Actions, Floats]:
        """Draw an action per state; return them and their log-probabilities (N,)."""

    @abstractmethod
    def mode(self) -> Actions:
        """The most probable action per state."""

    @abstractmethod
    def log_prob(self, actions: Actions) -> Array:
        """Log-probabilities (N,) of one action per state."""

    @abstractmethod
    def score(self, actions: Actions, coefficients: Array) -> Array:
        """Derivative of sum(coefficient * log pi(action)) by the network's outputs, (N, width); coefficients (N,)."""

    @abstractmethod
    def entropy(self) -> Array:
        """Entropies (N,), in nats."""

    @abstractmethod
    def entropy_gradient(self, coefficients: Array) -> Array:
        """Derivative of sum(coefficient * entropy) by the network's outputs, (N, width); coefficients (N,)."""
