"""The keyframe that weights are sent against when exchange.weights = "delta", and when it is time for another."""

from collections.abc import Sequence

import numpy as np

from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.base import Floats

TOLERANCE = 2.0**-11
"""Of the largest weight: what a half's rounding may lose there."""
_STEPS = 254
"""int8 loses at most the largest difference of a block over this."""


class Keyframe:
    """Weights of one version as actors hold them, rounding included."""

    def __init__(self, form: str, version: int, vectors: Sequence[Floats], extras: Floats) -> None:
        """`form`: fp32 or fp16, in which it is sent; `vectors` equally long."""
        size = vectors[0].size
        packing = WeightsFormat(form, size, len(vectors), extras.size)
        self.version = version
        self.body = packing.pack(vectors, extras)
        self._weights = np.empty(len(vectors) * size, np.float32)
        packing.unpack(self.body, list(self._weights.reshape(-1, size)), np.zeros_like(extras))
        self._format = DeltaFormat(size, len(vectors), extras.size)
        self._tolerance = TOLERANCE * _peak(self._weights)

    @np.errstate(all="ignore")
    def delta(self, vectors: Sequence[Floats], extras: Floats) -> tuple[bytes, bool]:
        """The body of newer weights, and whether it may lose more than a half of the largest weight does.

        Then a new keyframe is due: the further the weights have gone, the coarser their delta is.
        """
        difference = np.concatenate(vectors)
        difference -= self._weights
        coarse = _peak(difference) > _STEPS * self._tolerance
        return self._format.pack(self.version, difference, extras), coarse


def _peak(vector: Floats) -> float:
    """The largest magnitude; NaN if there is one."""
    return float(np.maximum(vector.max(), -vector.min()))
