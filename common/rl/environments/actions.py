"""Maps the actions of a policy to those of an environment."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from numpy.typing import NDArray

from common.errors import EnvironmentMissingError
from common.rl.action_spec import ActionSpec, discrete

Bounds = Literal["clip", "tanh"]


class ActionMap:
    """The actions of one space.

    Discrete and MultiDiscrete: the same numbers, counted from the space's own start. Box: where a number has both
    bounds, -1..1 is scaled to these, by clipping or after tanh (`bounds`); other numbers are clipped to their bound.
    """

    own: Callable[[NDArray[Any]], NDArray[Any]]
    """Maps a policy's actions (B, *spec.shape) to the environment's (B, *shape), a new array of the space's dtype."""

    def __init__(self, space: gymnasium.Space[Any], bounds: Bounds = "clip") -> None:
        """Raises EnvironmentMissingError for any other space, and for one without a number."""
        self.space = space
        self.same = isinstance(space, Discrete) and not space.start
        """Whether the policy's actions are the environment's own."""
        if isinstance(space, Discrete):
            self.spec = discrete(int(space.n))
            self.own = _from_start(space)
        elif isinstance(space, MultiDiscrete) and space.nvec.size:
            self.spec = ActionSpec("multi-discrete", tuple(space.nvec.ravel().tolist()), space.nvec.shape)
            self.own = _from_start(space)
        elif isinstance(space, Box) and space.low.size:
            both = np.isfinite(space.low) & np.isfinite(space.high)
            squashed = both if bounds == "tanh" else np.zeros_like(both)
            self.spec = ActionSpec("box", shape=space.shape, squashed=tuple(squashed.ravel().tolist()))
            self.own = _into_box(space, both, squashed)
        else:
            raise EnvironmentMissingError(
                f"action space {space} is not supported; Discrete, MultiDiscrete and Box are, of one number or more"
            )

    def bypass(self) -> None:
        """From now on, take the environment's own actions instead of a policy's."""
        self.same, self.own = True, np.asarray


@dataclass(frozen=True, eq=False)
class BoxMap:
    """Maps the numbers of a policy to those of a Box; every array has the Box's shape."""

    centre: NDArray[np.float64]
    """The middle of the two bounds; 0 where a bound is missing."""
    half: NDArray[np.float64]
    """Half the distance between the two bounds; 1 where a bound is missing."""
    low: NDArray[Any]
    high: NDArray[Any]
    squashed: NDArray[np.bool_]
    """Which numbers go through tanh first."""

    @property
    def whole(self) -> bool:
        """Whether the Box is of integers."""
        return np.issubdtype(self.low.dtype, np.integer)

    def __call__(self, actions: NDArray[Any]) -> NDArray[Any]:
        if self.squashed.any():
            actions = np.where(self.squashed, np.tanh(actions), actions)
        scaled = self.centre + self.half * actions
        if self.whole:
            scaled = np.rint(scaled)
        clipped: NDArray[Any] = np.clip(scaled, self.low, self.high).astype(self.low.dtype, copy=False)
        return clipped


def _from_start(space: Discrete | MultiDiscrete) -> partial[NDArray[Any]]:
    # In the space's own dtype: its `contains`, which some environments assert, takes no int64 for an int32.
    return partial(np.add, space.start, dtype=space.dtype, casting="unsafe")


def _into_box(space: Box, both: NDArray[np.bool_], squashed: NDArray[np.bool_]) -> BoxMap:
    low = np.where(both, space.low.astype(np.float64), -1)
    high = np.where(both, space.high.astype(np.float64), 1)
    # Bounds are halved before they are added, so that nothing overflows.
    return BoxMap(high / 2 + low / 2, high / 2 - low / 2, space.low, space.high, squashed)
