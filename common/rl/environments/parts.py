"""Observations made of parts, as one vector: Dict and Tuple, MultiBinary and MultiDiscrete.

gymnasium's `flatten` joins new arrays on each level; this writes each part into its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from common.errors import EnvironmentMissingError

Floats = NDArray[np.float32]
COMPOSED = (Dict, Tuple, MultiBinary, MultiDiscrete)


@dataclass(frozen=True)
class _Part:
    path: tuple[str | int, ...]
    """Keys from the whole observation to this part."""
    low: Floats
    high: Floats
    scale: float = 1.0
    offsets: NDArray[np.int64] | None = None
    """For choices: from the value of each to its place among this part's numbers, which are one-hot."""


class Parts:
    """Where each part of an observation lies in the vector.

    Box and MultiBinary are flattened, pictures (three axes of uint8) scaled to 0..1, Discrete and MultiDiscrete
    one-hot. Keys of a Dict come in its own order.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        """Raises EnvironmentMissingError, naming the space, for parts of another kind, and where there is no number."""
        parts = list(_parts(space, ()))
        if not parts:
            raise EnvironmentMissingError(f"observation space {space} is not supported: there is no number in it")
        ends = np.cumsum([len(part.low) for part in parts])
        self._parts = [(part, slice(end - len(part.low), end)) for part, end in zip(parts, ends, strict=True)]
        low, high = np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts])
        self.space = Box(low, high, dtype=np.float32)
        """Of the vector."""

    def write(self, rows: Floats, observations: Any) -> None:
        """Writes N observations, batched as gymnasium's vector environments do, into rows (N, numbers)."""
        for part, place in self._parts:
            values = observations
            for key in part.path:
                values = values[key]
            values = np.asarray(values).reshape(len(rows), -1)
            own = rows[:, place]
            if part.offsets is None:
                np.multiply(values, part.scale, out=own, casting="unsafe")
            else:
                own.fill(0.0)
                own[np.arange(len(own))[:, np.newaxis], values + part.offsets] = 1.0

    def write_one(self, row: Floats, observation: Any) -> None:
        """Writes one observation into a row (numbers,)."""
        for part, place in self._parts:
            values = observation
            for key in part.path:
                values = values[key]
            own = row[place]
            if part.offsets is None:
                np.multiply(np.ravel(values), part.scale, out=own, casting="unsafe")
            else:
                own.fill(0.0)
                own[np.ravel(values) + part.offsets] = 1.0


def is_picture(space: gymnasium.Space[Any]) -> bool:
    """Whether what is in this space are pictures: uint8 with three axes."""
    return isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) == 3


def _parts(space: gymnasium.Space[Any], path: tuple[str | int, ...]) -> Iterator[_Part]:
    match space:
        case Dict():
            for key, inner in space.spaces.items():
                yield from _parts(inner, (*path, key))
        case Tuple():
            for index, inner in enumerate(space.spaces):
                yield from _parts(inner, (*path, index))
        case Box() if not space.low.size:
            return
        case Box() if is_picture(space):
            yield _up_to_1(path, space.low.size, scale=1 / 255)
        case Box():
            low, high = (bound.ravel().astype(np.float32) for bound in (space.low, space.high))
            yield _Part(path, low, high)
        case MultiBinary():
            yield _up_to_1(path, math.prod(space.shape))
        case Discrete():
            yield _up_to_1(path, int(space.n), offsets=np.array([-int(space.start)]))
        case MultiDiscrete():
            sizes = space.nvec.ravel().astype(np.int64)
            offsets = np.cumsum(sizes) - sizes - space.start.ravel().astype(np.int64)
            yield _up_to_1(path, int(sizes.sum()), offsets=offsets)
        case _:
            where = f" in {'.'.join(map(str, path))}" if path else ""
            raise EnvironmentMissingError(
                f"observation space {space}{where} is not supported; Box, Discrete, MultiBinary, MultiDiscrete, and "
                "Dict and Tuple of these are"
            )


def _up_to_1(path: tuple[str | int, ...], count: int, **how: Any) -> _Part:
    return _Part(path, np.zeros(count, np.float32), np.ones(count, np.float32), **how)
