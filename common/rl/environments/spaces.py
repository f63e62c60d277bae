"""The supported observation spaces, and the form in which observations reach a network."""

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
    """Return the spec of an environment's observations as networks receive them.

    Three-dimensional uint8 arrays are pictures and stay uint8, channels first; the shorter of the first and the last
    axis is taken to be the channels. Every other Box becomes float32 of the same shape; Discrete is counted from 0.
    Raises EnvironmentMissingError for any other space.
    """
    if isinstance(space, Discrete):
        return ObservationSpec((), "discrete", int(space.n))
    if not isinstance(space, Box) or not space.low.size:
        raise EnvironmentMissingError(
            f"observation space {space} is not supported; Box, Discrete, MultiBinary, MultiDiscrete, and Dict and "
            "Tuple of these are, with one number or more"
        )
    size = math.prod(space.shape)
    if space.dtype != np.uint8 or len(space.shape) != 3:
        return ObservationSpec(space.shape, "box", size)
    height, width, channels = space.shape
    return ObservationSpec((channels, height, width) if channels < height else space.shape, "pixels", size)


class ObservationBuffer:
    """The observations of a batch: written as environments give them, read as networks take them."""

    def __init__(self, space: gymnasium.Space[Any], count: int) -> None:
        """space: of one observation of the environment; count: environments in the batch."""
        self.spec = describe(space)
        self._array: NDArray[Any] = np.zeros((count, *self.spec.shape), self.spec.dtype)
        self._rows = self._array if self.spec.shape == space.shape else self._array.transpose(0, 2, 3, 1)
        """The same memory in the environment's own layout."""
        self._origin = int(space.start) if isinstance(space, Discrete) else 0
        self.put: Callable[[Any, Any], None] = self._rows.__setitem__
        """Writes the observation of one environment, by its number, or with `...` those of all as one array."""

    def finished(self) -> NDArray[Any]:
        """Return (B, *shape) for the network; call it once, after every row has been written anew."""
        if self._origin:
            self._array -= self._origin
        return self._array
