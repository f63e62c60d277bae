"""The kind and shape of one observation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True)
class ObservationSpec:
    """One observation of an environment, without the batch axis.

    `box`: float32 of any shape. `pixels`: uint8 in 0..255, usually (channels, height, width). `discrete`: one int64
    in 0..size-1, shape ().
    """

    shape: tuple[int, ...]
    kind: Literal["box", "pixels", "discrete"]
    size: int
    """Inputs of a dense layer: the number of elements, or of possible values of a discrete observation."""
    seen: ObservationSpec | None = None
    """The spec of what precedes the action mask (`common.rl.action_masks`); None: there is no mask."""

    @property
    def bare(self) -> ObservationSpec:
        """The spec of what a network's layers see: the observation without its action mask."""
        return self.seen or self

    @property
    def nbytes(self) -> int:
        """Bytes of one observation."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def dtype(self) -> DTypeLike:
        return {"box": np.float32, "pixels": np.uint8, "discrete": np.int64}[self.kind]
