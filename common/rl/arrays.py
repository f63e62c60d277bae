"""Arrays of two kinds under one name: numpy's on the host, and those of a network's device.

Distributions and losses are written once, with operators, slices and what is here. Where they compute is decided by
where the network's outputs are: an actor's, and those of a learner on a CPU, are small arrays of numpy, whose calls
cost a fraction of torch's; those of a learner on a GPU stay there. The second kind is `common.rl.networks.tensors`,
which puts itself in place when it is imported: nothing here knows torch.
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
    """What one kind has no operator for. N rows, time first where it is (T, B)."""

    exp: ClassVar[Function]
    log: ClassVar[Function]
    tanh: ClassVar[Function]
    smaller: ClassVar[Function]
    """Of two arrays, element by element."""
    zeros_like: ClassVar[Function]
    copy: ClassVar[Function]
    number: ClassVar[Function]
    """A figure for people: a float, or on a device what becomes one when it is fetched."""

    @abstractmethod
    def softplus(self, x: Array) -> Array:
        """log(1 + exp(x))."""

    @abstractmethod
    def log_softmax(self, x: Array) -> Array:
        """Along the last of two axes."""

    @abstractmethod
    def largest(self, x: Array) -> Array:
        """(N,), of (N, width)."""

    @abstractmethod
    def clipped(self, x: Array, low: float | None, high: float) -> Array: ...
    @abstractmethod
    def kept(self, where: Array, x: Array | float) -> Array:
        """x, and 0 where not."""

    @abstractmethod
    def concatenated(self, parts: Sequence[Array], axis: int) -> Array: ...
    @abstractmethod
    def columns(self, x: Array, chosen: Sequence[int]) -> Array:
        """(N, n) of (N, width); chosen: rising."""

    @abstractmethod
    def pick(self, x: Array, columns: Array) -> Array:
        """(N,): the element in the column (int64) of each row."""

    @abstractmethod
    def add_at(self, x: Array, columns: Array, values: Array) -> None:
        """Adds (N,) to the element in the column (int64) of each row."""

    @abstractmethod
    def mean_weights(self, counted: Array) -> Array:
        """(N,): 1 / (how many are counted) for each that is counted (bool), 0 for the others."""

    @abstractmethod
    def accumulated(self, x: Array, decay: Array) -> Array:
        """y (T, B) with y_t = x_t + decay_t * y_{t+1}, and y_T = 0 beyond the end."""


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
        if y.size == len(y):  # of one environment: numbers take a tenth of the time of arrays of one
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
    """For all arrays that are not numpy's."""
    _on_device[:] = [arrays]


def of(x: Array) -> Arrays:
    """Those of the kind of `x`."""
    return _NUMPY if isinstance(x, np.ndarray) else _on_device[0]
