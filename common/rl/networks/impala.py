"""The deep network of Espeholt et al. 2018 (IMPALA), without its LSTM.

https://arxiv.org/abs/1802.01561, figure 3: three sections of a 3x3 convolution, a 3x3 maximum with stride 2 and two
residual blocks; then relu, a dense layer and relu. Every convolution and maximum is padded by one on each side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, max_pool2d

from common.rl.networks.conv import picture_shape
from common.rl.networks.trunk import HIDDEN_GAIN, Trunk, orthogonal, zeros
from common.rl.observation_spec import ObservationSpec

SECTIONS = (16, 32, 32)
"""Channels of each."""
BLOCKS = 2
"""Residual blocks of a section."""
UNITS = 256

_BRANCH_GAIN = HIDDEN_GAIN / math.sqrt(len(SECTIONS) * BLOCKS)
"""Of the second convolution of each block: at the start the six blocks together add about as much as comes in."""


class ImpalaTrunk(Trunk):
    """Sections of convolutions with residual blocks and one dense layer, on uint8 pictures (channels, height, width).

    Weights are stored channels last, (outputs, 3, 3, inputs). Raises ConfigurationError for other observations.
    """

    # A picture of 84x84 has 0.9 MB of activations after the first convolution and its maximum.
    chunk = 32

    def __init__(self, observation: ObservationSpec, generator: torch.Generator) -> None:
        super().__init__()
        channels, height, width = picture_shape(observation)
        layers = []
        for section, outputs in enumerate(SECTIONS):
            layers.append(self._convolution(f"section{section}", outputs, channels, HIDDEN_GAIN, generator))
            for block in range(BLOCKS):
                for half, gain in enumerate((HIDDEN_GAIN, _BRANCH_GAIN)):
                    name = f"section{section}_block{block}_conv{half}"
                    layers.append(self._convolution(name, outputs, outputs, gain, generator))
            channels, height, width = outputs, (height + 1) // 2, (width + 1) // 2
        self._layers = tuple(layers)
        self.dense_weight = orthogonal(UNITS, height * width * channels, gain=HIDDEN_GAIN, generator=generator)
        self.dense_bias = zeros(UNITS)
        self.features = UNITS
        self.architecture = "conv impala"

    def _convolution(
        self, name: str, outputs: int, inputs: int, gain: float, generator: torch.Generator
    ) -> tuple[nn.Parameter, nn.Parameter]:
        weight, bias = orthogonal(outputs, 3, 3, inputs, gain=gain, generator=generator), zeros(outputs)
        self.register_parameter(f"{name}_weight", weight)
        self.register_parameter(f"{name}_bias", bias)
        return weight, bias

    def forward(self, observations: Tensor) -> Tensor:
        """Return features (N, 256) of uint8 pictures (N, channels, height, width)."""
        x = observations.to(torch.float32, memory_format=torch.channels_last)
        layers = iter(self._layers)
        for section in range(len(SECTIONS)):
            weight, bias = next(layers)
            # Scaling the first section's few weights is cheaper than scaling every pixel.
            x = _conv(x, weight if section else weight * (1 / 255), bias)
            x = max_pool2d(x, 3, stride=2, padding=1)
            for _ in range(BLOCKS):
                branch = _conv(x.relu(), *next(layers)).relu_()
                x = _conv(branch, *next(layers)).add_(x)
        x = x.permute(0, 2, 3, 1).flatten(1).relu()
        return linear(x, self.dense_weight, self.dense_bias).relu_()


def _conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return conv2d(x, weight.permute(0, 3, 1, 2), bias, padding=1)
