"""The supported observation spaces, and the form in which observations reach a network."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from common.errors import EnvironmentMissingError, UnavailableError
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
    """The observations of a batch: written as environments give them, read as networks take them.

    Every observation is compared with the space, which costs about 0.1 us: numpy would repeat a single number over a
    whole row, cut the fractions off a picture, and take a number below a Discrete's first for one of its last.
    """

    def __init__(self, space: gymnasium.Space[Any], count: int, name: str) -> None:
        """space: of one observation of the environment; count: environments in the batch; name: for error messages."""
        self.spec = describe(space)
        self._space, self._name = space, name
        self._array: NDArray[Any] = np.zeros((count, *self.spec.shape), self.spec.dtype)
        self._rows = self._array if self.spec.shape == space.shape else self._array.transpose(0, 2, 3, 1)
        """The same memory in the environment's own layout."""
        self._origin = int(space.start) if isinstance(space, Discrete) else 0
        self._shape, self._kind = self._rows.shape[1:], self.spec.kind
        self.put: Callable[[int, Any], None] = self._rows.__setitem__ if self._kind == "discrete" else self._put
        """Writes the observation of one environment, by its number; raises UnavailableError if it is not of the space.

        A Discrete one is compared by `finished`, and numpy itself refuses more than one number for it.
        """

    def put_all(self, observations: Any) -> None:
        """Write the observations of all environments, one array; raises as `put`."""
        self._compare(np.asarray(observations), self._rows.shape)
        self._rows[...] = observations

    def finished(self) -> NDArray[Any]:
        """Return (B, *shape) for the network; call it once, after every row has been written anew.

        Raises UnavailableError for a Discrete observation that is not of the space.
        """
        if self._kind == "discrete":
            if self._origin:
                self._array -= self._origin
            numbers = self._array.tolist()  # for a few numbers, Python is faster than numpy
            low, high = min(numbers), max(numbers)
            if low < 0 or high >= self.spec.size:
                wrong = self._origin + (low if low < 0 else high)
                raise self._none_of_space(f"the observation {wrong}")
        return self._array

    def _put(self, index: int, observation: Any) -> None:
        fits = getattr(observation, "shape", None) == self._shape
        if not fits or (self._kind == "pixels" and observation.dtype is not self._rows.dtype):
            observation = np.asarray(observation)
            self._compare(observation, self._shape)
        self._rows[index] = observation

    def _compare(self, given: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Raise UnavailableError for another number of numbers, which numpy might repeat, and for a picture of floats.

        Axes of length 1 do no harm.
        """
        if given.size != math.prod(shape) or (self._kind == "pixels" and given.dtype.kind == "f"):
            raise self._none_of_space(f"an observation of shape {given.shape} and {given.dtype}")

    def _none_of_space(self, what: str) -> UnavailableError:
        return UnavailableError(f"environment {self._name} gave {what}, which is none of {self._space}")
