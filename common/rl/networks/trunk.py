"""The layers from the observation to a vector of features, which policy and value may share."""

import math

import torch
from torch import Tensor, nn

from common.rl.named_tensors import NamedTensor

HIDDEN_GAIN = math.sqrt(2)
"""Gain of the orthogonal initialisation of hidden layers, relu and tanh alike (as in the PPO reference code)."""


class Trunk(nn.Module):
    """Maps observations (N, *shape) to features (N, `features`)."""

    features: int
    architecture: str
    """As `PolicyValue.architecture`."""
    chunk: int
    """As `PolicyValue.chunk`."""

    def forward(self, observations: Tensor) -> Tensor:
        raise NotImplementedError

    def plain(self) -> nn.Sequential:
        """Return the same function in PyTorch's own layers, whose parameters are still to be set."""
        raise NotImplementedError

    def named(self, name: str, shape: tuple[int, ...]) -> NamedTensor:
        """Return the tensor that the parameter `name` becomes in the layers of `plain`."""
        raise NotImplementedError

    def _layer(
        self, name: str, *shape: int, generator: torch.Generator, gain: float = HIDDEN_GAIN
    ) -> tuple[nn.Parameter, nn.Parameter]:
        """Add a weight of `shape`, the outputs first, and a bias of zeros.

        nn.Linear and the look-ups of nn.Module add microseconds per layer, so a trunk keeps the two parameters.
        """
        weight, bias = orthogonal(*shape, gain=gain, generator=generator), zeros(shape[0])
        self.register_parameter(f"{name}_weight", weight)
        self.register_parameter(f"{name}_bias", bias)
        return weight, bias


def orthogonal(*shape: int, gain: float, generator: torch.Generator) -> nn.Parameter:
    """Return a weight (outputs, ...) with orthogonal rows (Saxe et al. 2013, https://arxiv.org/abs/1312.6120)."""
    weight = torch.empty(shape)
    nn.init.orthogonal_(weight, gain, generator=generator)
    return nn.Parameter(weight)


def zeros(outputs: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(outputs))
