"""A network's flat parameter vector as named tensors in the shapes of PyTorch's layers, and back, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_MOST_AXES = 8


class NamedTensor(msgspec.Struct, frozen=True):
    """A tensor of consecutive numbers of the vector: viewed as `view`, transposed to `axes`, reshaped to `shape`."""

    name: str
    view: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.view)


def plain_tensor(name: str, *shape: int) -> NamedTensor:
    """Return a tensor whose numbers are in the same order in the vector."""
    return NamedTensor(name, shape, tuple(range(len(shape))), shape)


def to_tensors(vector: Floats, layout: Iterable[NamedTensor]) -> dict[str, Floats]:
    """Return copies of the tensors, by name. layout: of the whole vector, in its order; else raises ValueError."""
    found, first = {}, 0
    for one in layout:
        part = vector[first : first + one.size].reshape(one.view)
        found[one.name] = np.array(part.transpose(one.axes).reshape(one.shape), order="C")
        first += one.size
    if first != vector.size:
        raise ValueError(f"a layout of {first} numbers for a vector of {vector.size}")
    return found


def to_vector(tensors: Mapping[str, Floats], layout: Sequence[NamedTensor]) -> Floats:
    """Return the vector of `to_tensors`; raises ValueError if the tensors and the layout do not fit each other."""
    if sorted(one.name for one in layout) != sorted(tensors):
        raise ValueError("other tensors than the layout names")
    parts = []
    for one in layout:
        tensor = tensors[one.name]
        if len(one.view) > _MOST_AXES or sorted(one.axes) != list(range(len(one.view))):
            raise ValueError(f"{one.name}: axes {one.axes} of {len(one.view)}")
        if tensor.shape != one.shape or tensor.dtype != np.float32 or min(one.view, default=1) < 0:
            raise ValueError(f"{one.name}: is {tensor.dtype} {tensor.shape}, not float32 {one.shape}")
        seen = tensor.reshape([one.view[axis] for axis in one.axes])  # raises ValueError
        parts.append(seen.transpose(np.argsort(one.axes)).ravel())
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
