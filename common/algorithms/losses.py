"""The three terms of the actor-critic loss, each with its derivative.

The derivatives are written out because they are simple and autograd's record of a loss of this size costs more than a
dense network (CartPole, 320 steps, one thread: 200 us instead of 700). A step counts with its weight: 1 / (number of
valid steps) for a mean over those, 0 for a dummy step. Arrays: N steps, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Term(NamedTuple):
    """One term of the loss."""

    value: float
    gradient: Floats
    """Derivative by the network's output: logits (N, A), or values (N,)."""


def log_softmax(logits: Floats) -> Floats:
    """Return the log-probabilities (N, A) of logits (N, A)."""
    shifted: Floats = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def policy_gradient(log_probs: Floats, actions: NDArray[np.int64], advantages: Floats, weights: Floats) -> Term:
    """Return -sum(weight * advantage * log pi(action)), and its derivative by the logits.

    The advantages are constants. See Mnih et al. 2016, https://arxiv.org/abs/1602.01783, section 4.

    Args:
        log_probs: (N, A), normalised.
        actions: (N,).
        advantages: (N,).
        weights: (N,).
    """
    rows = np.arange(len(actions))
    weighted = weights * advantages
    gradient = np.exp(log_probs) * weighted[:, np.newaxis]
    gradient[rows, actions] -= weighted
    return Term(-float(weighted @ log_probs[rows, actions]), gradient)


def entropy(log_probs: Floats, weights: Floats) -> Term:
    """Return the weighted entropy -sum(weight * sum_a pi log pi), and its derivative by the logits.

    Args:
        log_probs: (N, A), normalised, finite.
        weights: (N,).
    """
    probs = np.exp(log_probs)
    entropies = -(probs * log_probs).sum(axis=1)
    gradient = probs * (log_probs + entropies[:, np.newaxis])
    gradient *= -weights[:, np.newaxis]
    return Term(float(weights @ entropies), gradient)


def squared_error(values: Floats, targets: Floats, weights: Floats) -> Term:
    """Return sum(weight * (target - value)^2), and its derivative by the values; the targets are constants.

    Args:
        values: (N,).
        targets: (N,).
        weights: (N,).
    """
    errors = values - targets
    weighted = weights * errors
    return Term(float(weighted @ errors), 2 * weighted)
