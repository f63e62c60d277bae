"""The keyframe that weights are sent against when exchange.weights = "delta", and when it is time for another."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat

TOLERANCE = 2.0**-11
"""Of the largest weight: what a half's rounding may lose there."""
_STEPS = 254
"""int8 loses at most the largest difference of a block over this."""


class Keyframe:
    """Weights of one version as actors hold them, rounding included."""

    def __init__(self, form: str, version: int, vectors: Sequence[Tensor], extras: NDArray[np.float32]) -> None:
        """`form`: fp32 or fp16, in which it is sent; `vectors` equally long, on the CPU."""
        size = vectors[0].numel()
        packing = WeightsFormat(form, size, len(vectors), extras.size)
        self.version = version
        self.body = packing.pack(vectors, extras)
        self._weights = torch.empty(len(vectors) * size)
        packing.unpack(self.body, torch.split(self._weights, size), np.zeros_like(extras))
        self._format = DeltaFormat(size, len(vectors), extras.size)
        self._tolerance = TOLERANCE * float(self._weights.abs().max())

    def delta(self, vectors: Sequence[Tensor], extras: NDArray[np.float32]) -> tuple[bytes, bool]:
        """The body of newer weights, and whether it may lose more than a half of the largest weight does.

        Then a new keyframe is due: the further the weights have gone, the coarser their delta is.
        """
        difference = torch.cat(list(vectors)).sub_(self._weights)
        coarse = float(difference.abs().max()) > _STEPS * self._tolerance
        return self._format.pack(self.version, difference, extras), coarse
