"""The supported observation spaces, and the form in which observations reach a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from common.errors import EnvironmentMissingError
from common.rl.observation_spec import ObservationSpec

COMPOSED = (Dict, Tuple, MultiBinary, MultiDiscrete)
"""Spaces that `make` flattens to one vector by gymnasium's FlattenObservation, choices one-hot."""


def describe(space: gymnasium.Space[Any]) -> ObservationSpec:
    """The observation a network is built for, from the space of a batch (`Environments.observation_space`).

    Raises: EnvironmentMissingError for a space that is not supported.
    """
    space = network_space(space)
    if isinstance(space, Discrete):
        return ObservationSpec(shape=(), kind="discrete", size=int(space.n))
    size = math.prod(space.shape)
    return ObservationSpec(shape=space.shape, kind="pixels" if _is_picture(space) else "box", size=size)


def network_space(space: gymnasium.Space[Any]) -> Box | Discrete:
    """The space of an environment's observations as networks receive them.

    Three-dimensional uint8 arrays are pictures and stay uint8, channels first: the shorter of the first and the last
    axis is taken for the channels. Every other Box becomes float32 of the same shape; Discrete is counted from 0.
    Raises: EnvironmentMissingError for any other space.
    """
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if not isinstance(space, Box) or not space.low.size:
        raise EnvironmentMissingError(
            f"observation space {space} is not supported; Box, Discrete, MultiBinary, MultiDiscrete, and Dict and "
            "Tuple of these are, with one number or more"
        )
    if _is_picture(space):
        height, width, channels = space.shape
        shape = (channels, height, width) if channels < height else space.shape
        return Box(0, 255, shape, np.uint8)
    return Box(space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32)


class ObservationBuffer:
    """The observations of a batch: written as environments give them, read as networks take them."""

    def __init__(self, space: gymnasium.Space[Any], count: int) -> None:
        """space: of one observation of the environment; count: environments in the batch."""
        self.space = network_space(space)
        """Of one observation as a network receives it."""
        self._array: NDArray[Any] = np.zeros((count, *(self.space.shape or ())), self.space.dtype)
        self._rows = self._array if self.space.shape == space.shape else self._array.transpose(0, 2, 3, 1)
        """The same memory in the environment's own layout."""
        self._origin = int(space.start) if isinstance(space, Discrete) else 0
        self.put: Callable[[int, Any], None] = self._rows.__setitem__
        """Writes the observation of one environment, by its number."""

    def put_all(self, observations: Any) -> None:
        """Writes the observations of all, batched as gymnasium's vector environments do."""
        self._rows[...] = observations

    def finished(self) -> NDArray[Any]:
        """(B, *shape) for the network, once every row has been written anew."""
        if self._origin:
            self._array -= self._origin
        return self._array


def _is_picture(space: gymnasium.Space[Any]) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) == 3
