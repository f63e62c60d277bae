"""Layers that PyTorch lacks, and conversions of a3cd's parameters to those of PyTorch's layers.

They make up the networks for use outside of a3cd.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import one_hot

from common.rl.named_tensors import NamedTensor
from common.rl.observation_spec import ObservationSpec


def channels_last(name: str, shape: tuple[int, ...]) -> NamedTensor:
    """Return nn.Conv2d's weight, from one of shape (outputs, kernel, kernel, inputs)."""
    outputs, height, width, inputs = shape
    return NamedTensor(name, shape, (0, 3, 1, 2), (outputs, inputs, height, width))


def behind_pictures(name: str, shape: tuple[int, ...], places: tuple[int, int]) -> NamedTensor:
    """Return nn.Linear's weight after nn.Flatten of (channels, height, width), from one whose channels come last.

    places: height and width.
    """
    units, inputs = shape
    height, width = places
    return NamedTensor(name, (units, height, width, inputs // (height * width)), (0, 3, 1, 2), shape)


class Scale(nn.Module):
    """Numbers of any type as float32, multiplied by `factor`."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x.float() * self.factor

    def extra_repr(self) -> str:
        return f"{self.factor:g}"


class Encode(nn.Module):
    """Observations (N, *shape) as float32 (N, size): boxes flattened and scaled, pixels in 0..1, discrete one-hot."""

    def __init__(self, observation: ObservationSpec, scale: float) -> None:
        super().__init__()
        self.kind, self.size = observation.kind, observation.size
        self.factor = 1 / 255 if observation.kind == "pixels" else scale

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "discrete":
            return one_hot(x, self.size).float()
        return x.reshape(-1, self.size).float() * self.factor

    def extra_repr(self) -> str:
        return f"{self.kind}, {self.size}, {self.factor:g}"


class Normalize(nn.Module):
    """(x - mean) * scale within +-`limit`."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, limit: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * self.scale).clamp(-self.limit, self.limit)


class SubtractBackground(nn.Module):
    """(x - background) * scale, of pictures of any type."""

    background: Tensor
    scale: Tensor

    def __init__(self, background: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("background", background.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() - self.background) * self.scale


class Residual(nn.Module):
    """x + second(relu(first(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        branch: Tensor = self.second(self.first(x.relu()).relu())
        return branch + x
