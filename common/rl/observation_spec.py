"""The kind and shape of one observation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # an actor that only holds environments describes their observations, and needs no torch
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class ObservationSpec:
    """One observation of an environment, without the batch axis.

    `box`: float32 of any shape. `pixels`: uint8 in 0..255, usually (channels, height, width). `discrete`: one int64
    in 0..size-1, shape (). `size` counts the inputs a dense layer has: the number of elements of `shape`, or the
    number of values of a discrete observation.
    """

    shape: tuple[int, ...]
    kind: Literal["box", "pixels", "discrete"]
    size: int

    def __post_init__(self) -> None:
        if self.kind == "discrete":
            if self.shape or self.size < 1:
                raise ValueError(f"a discrete observation has shape () and size >= 1, not {self.shape} and {self.size}")
        elif self.size != math.prod(self.shape) or self.size < 1:
            raise ValueError(f"size {self.size} is not the number of elements of shape {self.shape}")

    @property
    def dtype(self) -> torch.dtype:
        """Element type of a batch of observations."""
        import torch

        return {"box": torch.float32, "pixels": torch.uint8, "discrete": torch.int64}[self.kind]


def encode(spec: ObservationSpec, observations: Tensor) -> Tensor:
    """Return a batch of observations (N, *shape) as float32 (N, size) for a dense layer.

    Boxes are flattened, pixels scaled to 0..1, discrete values one-hot.
    """
    if spec.kind == "discrete":
        rows = observations.float().new_zeros((len(observations), spec.size))
        return rows.scatter_(1, observations.unsqueeze(1), 1.0)
    if spec.kind == "pixels":
        return observations.flatten(1).float().mul_(1 / 255)
    return observations.flatten(1)
