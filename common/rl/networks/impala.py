"""The deep network of Espeholt et al. 2018 (IMPALA), without its LSTM.

https://arxiv.org/abs/1802.01561, figure 3: three sections of a 3x3 convolution, a 3x3 maximum with stride 2 and two
residual blocks; then relu, a dense layer and relu. Every convolution and maximum is padded by one on each side.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, max_pool2d

from common.rl.named_tensors import NamedTensor, plain_tensor
from common.rl.networks.pictures import PictureTrunk
from common.rl.networks.plain_layers import Residual, behind_pictures, channels_last
from common.rl.networks.trunk import HIDDEN_GAIN
from common.rl.observation_spec import ObservationSpec

SECTIONS = (16, 32, 32)
"""Channels of each section."""
BLOCKS = 2
UNITS = 256
_BRANCH_GAIN = HIDDEN_GAIN / math.sqrt(len(SECTIONS) * BLOCKS)
"""Gain of each block's second convolution: at the start, the six blocks together add about as much as their input."""


class ImpalaTrunk(PictureTrunk):
    """Weights are stored channels last, (outputs, 3, 3, inputs)."""

    # A picture of 84x84 has 0.9 MB of activations after the first convolution and its maximum.
    chunk = 32

    def __init__(
        self, observation: ObservationSpec, generator: torch.Generator, background: Tensor | None = None
    ) -> None:
        super().__init__(observation, background)
        channels, height, width = self._shape
        layers = []
        for section, outputs in enumerate(SECTIONS):
            layers.append(self._layer(f"section{section}", outputs, 3, 3, channels, generator=generator))
            for block in range(BLOCKS):
                for half, gain in enumerate((HIDDEN_GAIN, _BRANCH_GAIN)):
                    name = f"section{section}_block{block}_conv{half}"
                    layers.append(self._layer(name, outputs, 3, 3, outputs, generator=generator, gain=gain))
            channels, height, width = outputs, (height + 1) // 2, (width + 1) // 2
        self._layers = tuple(layers)
        self._places = height, width
        self._dense = self._layer("dense", UNITS, height * width * channels, generator=generator)
        self.features = UNITS
        self.architecture = self._described("conv impala")

    def forward(self, observations: Tensor) -> Tensor:
        x, first = self._scaled(self._arranged(observations), self._layers[0][0])
        x = x.contiguous(memory_format=torch.channels_last)
        layers = iter(self._layers)
        for section in range(len(SECTIONS)):
            weight, bias = next(layers)
            x = _conv(x, weight if section else first, bias)
            x = max_pool2d(x, 3, stride=2, padding=1)
            for _ in range(BLOCKS):
                branch = _conv(x.relu(), *next(layers)).relu_()
                x = _conv(branch, *next(layers)).add_(x)
        x = x.permute(0, 2, 3, 1).flatten(1).relu()
        return linear(x, *self._dense).relu_()

    def _arranged(self, pictures: Tensor) -> Tensor:
        return pictures.float()

    def plain(self) -> nn.Sequential:
        modules = [self._plain_scaling()]
        inputs = self._layers[0][0].shape[3]
        for outputs in SECTIONS:
            modules += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            modules += [Residual(outputs) for _ in range(BLOCKS)]
            inputs = outputs
        return nn.Sequential(*modules, nn.ReLU(), nn.Flatten(), nn.Linear(self._dense[0].shape[1], UNITS), nn.ReLU())

    def named(self, name: str, shape: tuple[int, ...]) -> NamedTensor:
        layer, *inside, kind = name.split("_")
        if layer == "dense":
            place = f"{1 + len(SECTIONS) * (2 + BLOCKS) + 2}.{kind}"
            return plain_tensor(place, *shape) if kind == "bias" else behind_pictures(place, shape, self._places)
        number = 1 + int(layer.removeprefix("section")) * (2 + BLOCKS)
        place = f"{number}.{kind}"
        if inside:
            block, half = inside
            place = f"{number + 2 + int(block.removeprefix('block'))}.{('first', 'second')[int(half[-1])]}.{kind}"
        return plain_tensor(place, *shape) if kind == "bias" else channels_last(place, shape)


def _conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return conv2d(x, weight.permute(0, 3, 1, 2), bias, padding=1)
