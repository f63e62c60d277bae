"""Choosing actions from the logits of a categorical policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def sample(logits: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Draw one action per row of `logits` (B, A); return actions (B,) and their log-probabilities (B,).

    Inverts the cumulative distribution: one random number a row, where the Gumbel trick needs one per action.
    """
    shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    cumulative = np.add.accumulate(np.exp(shifted), axis=1)
    total = cumulative[:, -1]
    # random() < 1 keeps the threshold below the total in float64, and an action of probability 0 is never counted last.
    threshold = rng.random(len(logits)) * total
    actions: NDArray[np.int64] = np.add.reduce(cumulative <= threshold[:, np.newaxis], axis=1, dtype=np.int64)
    return actions, shifted[np.arange(len(actions)), actions] - np.log(total)


def greedy(logits: Floats) -> NDArray[np.int64]:
    """Return the most probable action per row of `logits` (B, A)."""
    actions: NDArray[np.int64] = logits.argmax(axis=1)
    return actions
