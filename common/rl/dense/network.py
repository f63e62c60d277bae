"""Policy and value on dense trunks: acting, and forward and backward over a rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.action_masks import FORBIDDEN, split
from common.rl.dense.heads import Heads
from common.rl.dense.inputs import Inputs
from common.rl.dense.layout import CHUNK, DenseLayout
from common.rl.dense.trunk import Accumulator, Floats, Trunk
from common.rl.model import Layout

KEPT_CHUNKS = 16
"""The activations of up to this many chunks of a rollout are kept for `backward`; of more, they are computed again."""


@dataclass(eq=False)
class _Memory:
    """The arrays of one pass over some observations, reused for the next: new memory pages cost more than the sums."""

    inputs: Floats
    activations: list[list[Floats]]
    """Activations of each layer, for each trunk."""
    outputs: Floats


class DenseNetwork:
    """A network with its parameters in `vector`: what is written there takes effect at once."""

    def __init__(self, layout: DenseLayout, extras: Floats) -> None:
        """Make a network whose parameters are all 0. extras: as `Inputs` takes them."""
        parameters = layout.parameters
        self.vector: Floats = np.zeros(sum(math.prod(shape) for _, shape in parameters), np.float32)
        """All parameters, in the order of the layout."""
        self.gradient: Floats = np.zeros_like(self.vector)
        """The derivatives with respect to the parameters, in the same order."""
        self.chunk = CHUNK
        """Largest number of observations of a pass."""
        self._width = layout.action.width + 1
        self._inputs = Inputs(layout, extras)
        self._masked = layout.trunk.observation if layout.masked else None
        values, slopes = _views(self.vector, parameters), _views(self.gradient, parameters)
        self._heads = Heads(layout, values, slopes)
        prefixes = ["trunks.0."] if layout.shared else ["trunks.0.", "trunks.1."]
        self._trunks = [Trunk(layout.trunk, _below(one, values), _below(one, slopes)) for one in prefixes]
        self._acting = self._memory(0)
        self._passes: list[_Memory] = []
        """The memory of the last `forward`: one for each chunk, or one for all chunks."""
        self._slopes = self._layers(0)
        """The derivatives with respect to the activations of a chunk."""
        self._observations: NDArray[Any] = np.zeros(0, np.float32)
        """The observations of the last `forward`."""

    def act(self, observations: NDArray[Any]) -> Floats:
        """Return outputs (B, action.width + 1) of observations (B, *shape); they are valid until the next call."""
        if len(self._acting.outputs) != len(observations):
            self._acting = self._memory(len(observations))
        with np.errstate(all="ignore"):  # numbers that are not finite are detected where they matter
            return self._run(observations, self._acting)

    def forward(self, observations: NDArray[Any]) -> Floats:
        """Return outputs (N, action.width + 1) of observations (N, *shape), which must not change until `backward`."""
        self._observations = observations
        chunks = self._chunks()
        self._make_room(chunks)
        outputs = np.empty((len(observations), self._width), np.float32)
        with np.errstate(all="ignore"):
            for number, rows in enumerate(chunks):
                outputs[rows] = self._run(observations[rows], self._pass(number, rows))
        return outputs

    def backward(self, derivative: Floats) -> None:
        """Set `gradient`; call at most once after each `forward`.

        derivative: of the loss, with respect to the outputs of the last `forward`.
        """
        chunks = self._chunks()
        add = Accumulator()
        with np.errstate(all="ignore"):
            for number, rows in enumerate(chunks):
                memory = self._pass(number, rows)
                if len(chunks) > len(self._passes):
                    self._run(self._observations[rows], memory)
                self._back(self._observations[rows], derivative[rows], memory, add)
                add.first = False

    def _run(self, observations: NDArray[Any], memory: _Memory) -> Floats:
        allowed = None
        if self._masked is not None:
            observations, allowed = split(self._masked, observations)
        inputs = self._inputs.encode(observations, memory.inputs)
        features = [one.forward(inputs, kept) for one, kept in zip(self._trunks, memory.activations, strict=True)]
        self._heads.forward(features, memory.outputs)
        if allowed is not None:
            memory.outputs[:, :-1][~allowed] = FORBIDDEN
        return memory.outputs

    def _back(self, observations: NDArray[Any], derivative: Floats, memory: _Memory, add: Accumulator) -> None:
        if self._masked is not None:
            observations, allowed = split(self._masked, observations)
            derivative = derivative.copy()
            derivative[:, :-1][~allowed] = 0
        inputs = memory.inputs if self._inputs.copies else self._inputs.encode(observations, memory.inputs)
        slopes = [[layer[: len(derivative)] for layer in trunk] for trunk in self._slopes]
        features, by_features = ([trunk[-1] for trunk in part] for part in (memory.activations, slopes))
        self._heads.backward(derivative, features, by_features, add)
        for trunk, kept, by_kept in zip(self._trunks, memory.activations, slopes, strict=True):
            trunk.backward(inputs, kept, by_kept, add)

    def _chunks(self) -> list[slice]:
        count = len(self._observations)
        return [slice(first, min(first + self.chunk, count)) for first in range(0, count, self.chunk)]

    def _make_room(self, chunks: list[slice]) -> None:
        kept = chunks if len(chunks) <= KEPT_CHUNKS else chunks[:1]
        sizes = [rows.stop - rows.start for rows in kept]
        if [len(memory.outputs) for memory in self._passes] != sizes:
            self._passes = [self._memory(rows) for rows in sizes]
            self._slopes = self._layers(sizes[0])

    def _pass(self, number: int, rows: slice) -> _Memory:
        """Return the memory of a chunk."""
        if number < len(self._passes):
            return self._passes[number]
        first, count = self._passes[0], rows.stop - rows.start
        if len(first.outputs) == count:
            return first
        activations = [[layer[:count] for layer in trunk] for trunk in first.activations]
        return _Memory(first.inputs[:count], activations, first.outputs[:count])

    def _memory(self, rows: int) -> _Memory:
        inputs = np.empty((rows if self._inputs.copies else 0, self._inputs.size), np.float32)
        return _Memory(inputs, self._layers(rows), np.empty((rows, self._width), np.float32))

    def _layers(self, rows: int) -> list[list[Floats]]:
        return [[np.empty((rows, units), np.float32) for units in trunk.units] for trunk in self._trunks]


def _views(vector: Floats, layout: Layout) -> dict[str, Floats]:
    """Return views of the parameters in a flat vector, by name."""
    views, first = {}, 0
    for name, shape in layout:
        last = first + math.prod(shape)
        views[name.replace("inner.", "")] = vector[first:last].reshape(shape)
        first = last
    return views


def _below(prefix: str, views: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name.removeprefix(prefix): view for name, view in views.items() if name.startswith(prefix)}
