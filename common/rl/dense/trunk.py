"""The dense layers below policy and value: forward for acting and learning, and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from common.rl.dense.layout import TrunkLayout

Floats = NDArray[np.float32]
Parameters = Mapping[str, Floats]


class Accumulator:
    """Writes a layer's gradient for the first chunk of a pass, and adds to it for the later chunks."""

    def __init__(self) -> None:
        self.first = True
        """Whether the chunk is the first."""
        self._ones = np.ones(0, np.float32)

    def __call__(self, delta: Floats, inputs: Floats, by_weight: Floats, by_bias: Floats) -> None:
        """Write or add the gradient of a linear layer.

        delta: (N, units), the derivative with respect to the layer's outputs. inputs: (N, inputs).
        """
        if len(self._ones) != len(delta):
            self._ones = np.ones(len(delta), np.float32)
        if self.first:
            np.dot(delta.T, inputs, out=by_weight)
            np.dot(self._ones, delta, out=by_bias)  # a product with ones is the fastest sum over rows
        else:
            by_weight += np.dot(delta.T, inputs)
            by_bias += np.dot(self._ones, delta)

    def rows(self, delta: Floats, by_row: Floats) -> None:
        """Write or add the gradient of a parameter that is added to each row.

        delta: (N, n), the derivative with respect to the rows.
        """
        total = np.add.reduce(delta, axis=0)
        by_row[...] = total if self.first else by_row + total


class Trunk:
    """One trunk. Its weights and their gradient are views of the network's flat vectors."""

    def __init__(self, layout: TrunkLayout, parameters: Parameters, gradients: Parameters) -> None:
        """parameters, gradients: by the names of `TrunkLayout.layers`."""
        names = [name for name, _, _ in layout.layers()]
        self.units = layout.hidden
        self._weights = [parameters[f"{name}_weight"] for name in names]
        self._transposed = [weight.T for weight in self._weights]
        self._biases = [parameters[f"{name}_bias"] for name in names]
        self._by_weights = [gradients[f"{name}_weight"] for name in names]
        self._by_biases = [gradients[f"{name}_bias"] for name in names]
        tanh = layout.activation == "tanh"
        self._activate: Callable[[Floats], object] = _tanh if tanh else _relu
        self._times_slope: Callable[[Floats, Floats], object] = _times_slope_of_tanh if tanh else _times_slope_of_relu

    def forward(self, inputs: Floats, activations: Sequence[Floats]) -> Floats:
        """Return the features of `inputs` (N, inputs), and write each layer's values (N, units) into `activations`."""
        x = inputs
        for weight, bias, out in zip(self._transposed, self._biases, activations, strict=True):
            np.dot(x, weight, out=out)
            out += bias
            self._activate(out)
            x = out
        return x

    def backward(
        self, inputs: Floats, activations: Sequence[Floats], derivatives: Sequence[Floats], add: Accumulator
    ) -> None:
        """Back-propagate to the parameters.

        inputs, activations: as `forward` took and left them; activations are overwritten. derivatives: memory of the
        same shapes as activations; `derivatives[-1]` (N, features) is the derivative with respect to the features.
        """
        for index in range(len(self._weights) - 1, -1, -1):
            delta = derivatives[index]
            self._times_slope(delta, activations[index])
            add(delta, activations[index - 1] if index else inputs, self._by_weights[index], self._by_biases[index])
            if index:
                np.dot(delta, self._weights[index], out=derivatives[index - 1])


def _tanh(x: Floats) -> None:
    np.tanh(x, out=x)


def _relu(x: Floats) -> None:
    np.maximum(x, 0, out=x)


def _times_slope_of_tanh(delta: Floats, y: Floats) -> None:
    """Multiply by 1 - y^2, and overwrite y."""
    np.multiply(y, y, out=y)
    np.subtract(1, y, out=y)
    delta *= y


def _times_slope_of_relu(delta: Floats, y: Floats) -> None:
    """Multiply by 1 where y > 0 and by 0 elsewhere."""
    delta *= y > 0
