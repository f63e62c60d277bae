"""Common parts of the naive computations of losses, in float64."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from common.rl.algorithms.losses import Floats
from common.rl.networks.model import TorchModel
from common.rl.rollout import Rollout

Doubles = NDArray[np.float64]


def outputs_of(model: TorchModel, rollout: Rollout) -> Floats:
    """Returns the network's outputs, as the losses take them."""
    with torch.no_grad():
        outputs: Floats = model.network.features(torch.from_numpy(rollout.observations).flatten(0, 1)).numpy()
    return outputs


def probabilities(outputs: Floats, copies: int = 7) -> tuple[Doubles, Doubles]:
    """Returns the probabilities of every action (T + 1, B, actions), and the values (T + 1, B)."""
    rows = outputs.astype(np.float64).reshape(-1, copies, outputs.shape[1])
    exponentials = np.exp(rows[:, :, :-1])
    return exponentials / exponentials.sum(axis=2, keepdims=True), rows[:, :, -1]


def naive_returns(rollout: Rollout, values: Doubles, discount: float, lambda_: float) -> Doubles:
    """Returns lambda-returns (T, B), computed backwards step by step; a dummy step's return is its value."""
    steps, copies = rollout.rewards.shape
    returns = np.zeros((steps, copies))
    for b in range(copies):
        following = values[steps, b]
        for t in reversed(range(steps)):
            if not rollout.valid[t, b]:
                following = returns[t, b] = values[t, b]
                continue
            ahead = (1 - lambda_) * values[t + 1, b] + lambda_ * following
            returns[t, b] = float(rollout.rewards[t, b]) + (0 if rollout.terminated[t, b] else discount * ahead)
            following = returns[t, b]
    return returns
