"""Arrays of two kinds under one name: numpy's on the host, and those of a network's device.

Distributions and losses are written once, with operators, slices and the functions of `Arrays`. They compute where the
network's outputs are. Outputs of an actor, and of a learner on a CPU, are small numpy arrays, since a call of numpy
costs a fraction of a call of torch; outputs of a learner on a GPU stay there. The second kind is in
`common.rl.networks.tensors`; `common.rl.networks.model` registers it by `put_in_place`, so nothing here needs torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

Array = Any
"""A numpy array, or a tensor on the device of the network; float32 unless said otherwise."""
Function = Callable[..., Any]


class Arrays(ABC):
    """The functions of one kind of array. Arrays have N rows, or are (T, B), time first."""

    exp: ClassVar[Function]
    log: ClassVar[Function]
    tanh: ClassVar[Function]
    smaller: ClassVar[Function]
    """The element-wise minimum of two arrays."""
    zeros_like: ClassVar[Function]
    copy: ClassVar[Function]
    number: ClassVar[Function]
    """A scalar to be reported: a float or, on a device, a tensor that becomes one when it is fetched."""

    @abstractmethod
    def softplus(self, x: Array) -> Array:
        """Return log(1 + exp(x))."""

    @abstractmethod
    def log_softmax(self, x: Array) -> Array:
        """Return the logarithm of the softmax over each row of (N, width)."""

    @abstractmethod
    def largest(self, x: Array) -> Array:
        """Return the largest element of each row: (N,) from (N, width)."""

    @abstractmethod
    def clipped(self, x: Array, low: float | None, high: float) -> Array: ...
    @abstractmethod
    def kept(self, where: Array, x: Array | float) -> Array:
        """Return x where `where` is True, and 0 elsewhere."""

    @abstractmethod
    def concatenated(self, parts: Sequence[Array], axis: int) -> Array: ...
    @abstractmethod
    def columns(self, x: Array, chosen: Sequence[int]) -> Array:
        """Return (N, n), some columns of x (N, width). chosen: their numbers (n,), rising."""

    @abstractmethod
    def pick(self, x: Array, columns: Array) -> Array:
        """Return (N,): from each row of x the element in its column. columns: (N,) int64."""

    @abstractmethod
    def add_at(self, x: Array, columns: Array, values: Array) -> None:
        """Add values (N,) in place, each to the element of its row in its column. columns: (N,) int64."""

    @abstractmethod
    def mean_weights(self, counted: Array) -> Array:
        """Return (N,): 1 / (number of elements that are counted) where `counted` (bool) is True, 0 elsewhere."""

    @abstractmethod
    def accumulated(self, x: Array, decay: Array) -> Array:
        """Return y (T, B) with y_t = x_t + decay_t * y_{t+1}, and y_T = 0 beyond the end."""


class NumpyArrays(Arrays):
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    tanh = staticmethod(np.tanh)
    smaller = staticmethod(np.minimum)
    zeros_like = staticmethod(np.zeros_like)
    copy = staticmethod(np.copy)
    number = staticmethod(float)

    def softplus(self, x: Array) -> Array:
        return np.logaddexp(0, x)

    def log_softmax(self, x: Array) -> Array:
        shifted = x - x.max(axis=1, keepdims=True)
        shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return shifted

    def largest(self, x: Array) -> Array:
        return x.max(axis=1)

    def clipped(self, x: Array, low: float | None, high: float) -> Array:
        # np.clip takes five times as long for one bound.
        return np.minimum(x, np.float32(high)) if low is None else np.clip(x, np.float32(low), np.float32(high))

    def kept(self, where: Array, x: Array | float) -> Array:
        return np.where(where, np.float32(x) if isinstance(x, float) else x, np.float32(0))

    def concatenated(self, parts: Sequence[Array], axis: int) -> Array:
        return np.concatenate(parts, axis=axis)

    def columns(self, x: Array, chosen: Sequence[int]) -> Array:
        return x[:, chosen]

    def pick(self, x: Array, columns: Array) -> Array:
        return x[np.arange(len(columns)), columns]

    def add_at(self, x: Array, columns: Array, values: Array) -> None:
        x[np.arange(len(columns)), columns] += values

    def mean_weights(self, counted: Array) -> Array:
        return counted.ravel().astype(np.float32) / np.float32(max(1, int(np.count_nonzero(counted))))

    def accumulated(self, x: Array, decay: Array) -> Array:
        y = x.copy()
        if y.size == len(y):  # one environment: scalars take a fraction of the time of arrays of one element
            column, factors = list(y.ravel()), list(decay.ravel())
            for t in range(len(column) - 2, -1, -1):
                column[t] += factors[t] * column[t + 1]
            y[...] = np.array(column, y.dtype).reshape(y.shape)
            return y
        for t in range(len(y) - 2, -1, -1):
            y[t] += decay[t] * y[t + 1]
        return y


_NUMPY = NumpyArrays()
_on_device: list[Arrays] = []


def put_in_place(arrays: Arrays) -> None:
    """Use `arrays` for all arrays that are not numpy's."""
    _on_device[:] = [arrays]


def of(x: Array) -> Arrays:
    """Return the functions for arrays of the kind of `x`."""
    return _NUMPY if isinstance(x, np.ndarray) else _on_device[0]
