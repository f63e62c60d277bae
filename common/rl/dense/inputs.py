"""From observations to the inputs of a dense layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.dense.layout import DenseLayout
from common.rl.normalization import MAX_NORMALIZED

Floats = NDArray[np.float32]
_PIXEL = np.float32(1 / 255)


class Inputs:
    """Encodes observations: boxes flattened, normalised and scaled, pixels scaled to 0..1, discrete values one-hot."""

    def __init__(self, layout: DenseLayout, extras: Floats) -> None:
        """extras: laid out by `Normalization`; they may change in place."""
        spec = layout.trunk.observation
        self.size = spec.size
        self._kind = spec.kind
        self._scale = np.float32(layout.trunk.scale)
        self._mean, self._deviation = extras[: spec.size], extras[spec.size : 2 * spec.size]
        self._normalized = layout.normalized
        self.copies = spec.kind != "box" or layout.normalized or layout.trunk.scale != 1.0
        """Whether the inputs differ from the flattened observations, so that `encode` writes them into `out`."""

    def encode(self, observations: NDArray[Any], out: Floats) -> Floats:
        """Return the inputs (N, size) of observations (N, *shape); out: memory for them, if `copies`."""
        if self._kind == "discrete":
            out.fill(0)
            out[np.arange(len(observations)), observations] = 1
            return out
        flat = observations.reshape(len(observations), self.size)
        if not self.copies:
            return flat
        if self._kind == "pixels":
            np.multiply(flat, _PIXEL, out=out)
            return out
        if self._normalized:
            np.subtract(flat, self._mean, out=out)
            out *= self._deviation
            flat = np.clip(out, -MAX_NORMALIZED, MAX_NORMALIZED, out=out)
        if self._scale != 1:
            np.multiply(flat, self._scale, out=out)
        return out
