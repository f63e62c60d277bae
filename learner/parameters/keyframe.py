"""The keyframe to which weights are sent as a difference (exchange.weights = "delta"), and when the next one is due."""

from collections.abc import Sequence

import numpy as np

from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.base import Floats

TOLERANCE = 2.0**-11
"""Largest error of a delta, relative to the largest weight: the error that float16 rounding may cause there."""
_STEPS = 254
"""The error of int8 is at most the largest difference of a block divided by this."""


class Keyframe:
    """The weights of one version as actors hold them, rounding included."""

    def __init__(self, form: str, version: int, vectors: Sequence[Floats], extras: Floats) -> None:
        """`form`: fp32 or fp16, in which the keyframe is sent; `vectors`: equally long."""
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
        """Return the body of newer weights, and whether its error may exceed TOLERANCE of the largest weight.

        If it may, a new keyframe is due: the further the weights have moved, the coarser their delta is.
        """
        difference = np.concatenate(vectors)
        difference -= self._weights
        coarse = _peak(difference) > _STEPS * self._tolerance
        return self._format.pack(self.version, difference, extras), coarse


def _peak(vector: Floats) -> float:
    """Return the largest magnitude; NaN if there is one in the vector."""
    return float(np.maximum(vector.max(), -vector.min()))
