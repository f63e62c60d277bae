"""Convolutions on stacked frames, in the form with the fastest gradient on a CPU.

A convolution whose kernel is twice its stride s equals a 2x2 convolution of stride 1 on the picture cut into s x s
blocks (space to depth); the values of a block are the channels of one position. The parameters are stored in that
form, (outputs, 2, 2, block values), channels last. A3C's network on 84x84x4, one thread: a gradient takes 280 us a
frame in chunks, against 600-900 for nn.Conv2d with 320 frames at once (benchmarks/networks.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from common.errors import ConfigurationError
from common.rl.named_tensors import NamedTensor, plain_tensor
from common.rl.networks.pictures import PictureTrunk
from common.rl.networks.plain_layers import behind_pictures, channels_last
from common.rl.observation_spec import ObservationSpec


@dataclass(frozen=True)
class Convolution:
    """A convolution with `channels` outputs and a square kernel, without padding."""

    channels: int
    kernel: int
    stride: int

    @property
    def blocks(self) -> bool:
        """Whether it is computed on blocks."""
        return self.stride > 1 and self.kernel == 2 * self.stride

    def weight_shape(self, inputs: int) -> tuple[int, int, int, int]:
        if self.blocks:
            return self.channels, 2, 2, inputs * self.stride**2
        return self.channels, self.kernel, self.kernel, inputs

    def outputs(self, side: int) -> int:
        """Return the number of output positions along an axis of `side` inputs."""
        return (side - self.kernel) // self.stride + 1


A3C = ((Convolution(16, 8, 4), Convolution(32, 4, 2)), 256)
"""Mnih et al. 2016, https://arxiv.org/abs/1602.01783, section 8: two convolutions, then 256 dense units."""

NATURE = ((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512)
"""Mnih et al. 2015, https://doi.org/10.1038/nature14236: three convolutions, then 512 dense units."""

STUDENTS = (NATURE[0], 128)


class ConvTrunk(PictureTrunk):
    """Convolutions and one dense layer, relu after each; the first convolution is 8x8 with stride 4.

    Raises ConfigurationError for pictures smaller than the convolutions need.
    """

    # Each chunk costs a pass over the weights and their gradient. With much larger ones the allocator would take the
    # pictures' memory from the system each time: from 32 MiB on, which 290 of 4x84x84 have as floats.
    chunk = 192

    def __init__(
        self,
        observation: ObservationSpec,
        convolutions: Sequence[Convolution],
        units: int,
        generator: torch.Generator,
        background: Tensor | None = None,
    ) -> None:
        super().__init__(observation, background)
        channels, height, width = self._shape
        layers: list[tuple[Tensor, Tensor, Convolution]] = []
        for index, convolution in enumerate(convolutions):
            shape = convolution.weight_shape(channels)
            layers.append((*self._layer(f"conv{index}", *shape, generator=generator), convolution))
            channels = convolution.channels
            height, width = convolution.outputs(height), convolution.outputs(width)
        if min(height, width) < 1:
            raise ConfigurationError(
                f"network.kind: pictures of {observation.shape[1]}x{observation.shape[2]} are too small for a conv "
                f"network; use dense, or larger pictures (84x84 is usual)"
            )
        self._layers = tuple(layers)
        self._places = height, width
        self._dense = self._layer("dense", units, height * width * channels, generator=generator)
        self.features = units
        kinds = " ".join(f"{c.channels}@{c.kernel}/{c.stride}" for c in convolutions)
        self.architecture = self._described(f"conv {kinds}")

    def forward(self, observations: Tensor) -> Tensor:
        x = self._arranged(observations)
        for index, (weight, bias, convolution) in enumerate(self._layers):
            if index == 0:
                x, weight = self._scaled(x, weight)
            elif convolution.blocks:
                x = space_to_depth(x, convolution.stride)
            stride = 1 if convolution.blocks else convolution.stride
            x = conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), bias, stride).relu_().permute(0, 2, 3, 1)
        return linear(x.flatten(1), *self._dense).relu_()

    def _arranged(self, pictures: Tensor) -> Tensor:
        return pixel_blocks(pictures)

    def plain(self) -> nn.Sequential:
        layers = [self._plain_scaling()]
        for weight, _, convolution in self._layers:
            inputs = weight[0].numel() // convolution.kernel**2
            layers += [nn.Conv2d(inputs, len(weight), convolution.kernel, convolution.stride), nn.ReLU()]
        units, inputs = self._dense[0].shape
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs, units), nn.ReLU())

    def named(self, name: str, shape: tuple[int, ...]) -> NamedTensor:
        layer, kind = name.split("_")
        if layer == "dense":
            place = f"{2 * len(self._layers) + 2}.{kind}"
            return plain_tensor(place, *shape) if kind == "bias" else behind_pictures(place, shape, self._places)
        number = int(layer.removeprefix("conv"))
        place = f"{1 + 2 * number}.{kind}"
        return plain_tensor(place, *shape) if kind == "bias" else _square(place, shape, self._layers[number][2], number)


def _square(name: str, shape: tuple[int, ...], convolution: Convolution, layer: int) -> NamedTensor:
    """Return the tensor of a weight in the shape of nn.Conv2d, (outputs, inputs, kernel, kernel)."""
    if not convolution.blocks:
        return channels_last(name, shape)
    outputs, stride = shape[0], convolution.stride
    inputs = shape[3] // stride**2
    square = outputs, inputs, convolution.kernel, convolution.kernel
    if layer == 0:  # `pixel_blocks`: channel, row, column
        return NamedTensor(name, (outputs, 2, 2, inputs, stride, stride), (0, 3, 1, 4, 2, 5), square)
    # `space_to_depth`: row, column, channel
    return NamedTensor(name, (outputs, 2, 2, stride, stride, inputs), (0, 5, 1, 3, 2, 4), square)


def pixel_blocks(pictures: Tensor) -> Tensor:
    """Cut pictures (N, C, H, W) of uint8 or float32 into 4x4 blocks: float32 (N, H // 4, W // 4, 16 C), values kept.

    Order within a block: channel, row, column. Pixels beyond the last whole block are left out, as by an 8x8/4
    convolution.
    """
    n, channels, height, width = pictures.shape
    rows, columns = height // 4, width // 4
    if (4 * rows, 4 * columns) != (height, width):
        pictures = pictures[:, :, : 4 * rows, : 4 * columns]
    if pictures.dtype != torch.uint8:
        blocks = pictures.reshape(n, channels, rows, 4, columns, 4).permute(0, 2, 4, 1, 3, 5)
        return blocks.reshape(n, rows, columns, 16 * channels)
    # Four neighbouring pixels move as one int32, and two plain transpositions are faster than one permutation of five
    # axes: 16 us a frame instead of 120.
    words = pictures.contiguous().view(torch.int32).view(n, channels, rows, 4, columns)
    words = words.permute(0, 2, 1, 3, 4).reshape(n, rows, 4 * channels, columns).transpose(2, 3).contiguous()
    return words.view(torch.uint8).float()


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Cut x (N, H, W, C) into blocks: (N, H // block, W // block, block * block * C).

    Order within a block: row, column, channel. Values beyond the last whole block are left out.
    """
    n, height, width, channels = x.shape
    rows, columns = height // block, width // block
    if (block * rows, block * columns) != (height, width):
        x = x[:, : block * rows, : block * columns]
    x = x.reshape(n, rows, block, columns, block, channels).transpose(2, 3)
    return x.reshape(n, rows, columns, block * block * channels)
