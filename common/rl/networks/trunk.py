"""What policy and value share: the layers from the observation to a vector of features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

HIDDEN_GAIN = math.sqrt(2)
"""Gain of the orthogonal initialisation of hidden layers, relu and tanh alike (as in the PPO reference code)."""


class Trunk(nn.Module):
    """Maps observations (N, *shape) to features (N, `features`)."""

    features: int
    """Length of a feature vector."""
    architecture: str
    """What the shapes of the parameters do not say; two trunks that compute differently differ here."""
    chunk: int
    """Observations a batch best holds at most when a gradient is computed."""

    def forward(self, observations: Tensor) -> Tensor:
        """Return features (N, `features`)."""
        raise NotImplementedError


def orthogonal(*shape: int, gain: float, generator: torch.Generator) -> nn.Parameter:
    """A weight (outputs, ...) whose rows are orthogonal when it is seen as a matrix (outputs, inputs).

    Saxe et al. 2013, https://arxiv.org/abs/1312.6120.
    """
    weight = torch.empty(shape)
    nn.init.orthogonal_(weight, gain, generator=generator)
    return nn.Parameter(weight)


def zeros(outputs: int) -> nn.Parameter:
    """A bias of zeros."""
    return nn.Parameter(torch.zeros(outputs))
