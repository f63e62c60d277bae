"""The interface of a distribution of actions."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Actions = NDArray[Any]
"""(N, *shape) of the action spec's shape."""


class Distribution(ABC):
    """The distributions of the actions of N states."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> tuple[Actions, Floats]:
        """Draw an action per state; return them and their log-probabilities (N,)."""

    @abstractmethod
    def mode(self) -> Actions:
        """The most probable action per state."""

    @abstractmethod
    def log_prob(self, actions: Actions) -> Floats:
        """Log-probabilities (N,) of one action per state."""

    @abstractmethod
    def score(self, actions: Actions, coefficients: Floats) -> Floats:
        """Derivative of sum(coefficient * log pi(action)) by the network's outputs, (N, width); coefficients (N,)."""

    @abstractmethod
    def entropy(self) -> Floats:
        """Entropies (N,), in nats."""

    @abstractmethod
    def entropy_gradient(self, coefficients: Floats) -> Floats:
        """Derivative of sum(coefficient * entropy) by the network's outputs, (N, width); coefficients (N,)."""
