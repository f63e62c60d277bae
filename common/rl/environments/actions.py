"""Maps the actions of a policy to those of an environment."""

from __future__ import annotations

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

    def __init__(self, space: gymnasium.Space[Any], bounds: Bounds = "clip") -> None:
        """Raises EnvironmentMissingError for a space that is none of the three."""
        self._start: Any = 0
        self._box: _Box | None = None
        if isinstance(space, Discrete):
            self.spec = discrete(int(space.n))
            self._start = int(space.start)
        elif isinstance(space, MultiDiscrete) and space.nvec.size:
            sizes = tuple(int(size) for size in space.nvec.ravel())
            self.spec = ActionSpec("multi-discrete", sizes, space.nvec.shape)
            self._start = space.start.astype(np.int64)
        elif isinstance(space, Box) and space.low.size:
            self._box = _Box(space, bounds)
            squashed = tuple(bool(one) for one in self._box.squashed.ravel())
            self.spec = ActionSpec("box", shape=space.shape, squashed=squashed)
        else:
            raise EnvironmentMissingError(
                f"action space {space} is not supported; Discrete, MultiDiscrete and Box are, of one number or more"
            )

    def own(self, actions: NDArray[Any]) -> NDArray[Any]:
        """The environment's actions (B, *shape), a new array, for a policy's (B, *spec.shape)."""
        if self._box is not None:
            return self._box.own(actions)
        own: NDArray[Any] = actions + self._start
        return own


class _Box:
    def __init__(self, space: Box, bounds: Bounds) -> None:
        both = np.isfinite(space.low) & np.isfinite(space.high)
        low = np.where(both, space.low.astype(np.float64), -1)
        high = np.where(both, space.high.astype(np.float64), 1)
        self.squashed = both if bounds == "tanh" else np.zeros_like(both)
        self._low, self._high = space.low, space.high
        self._centre = high / 2 + low / 2  # halved first: no overflow
        self._half = high / 2 - low / 2
        self._dtype = space.dtype
        self._whole = space.dtype is not None and np.issubdtype(space.dtype, np.integer)

    def own(self, actions: NDArray[Any]) -> NDArray[Any]:
        if self.squashed.any():
            actions = np.where(self.squashed, np.tanh(actions), actions)
        own = self._centre + self._half * actions
        if self._whole:
            own = np.rint(own)
        clipped: NDArray[Any] = np.clip(own, self._low, self._high).astype(self._dtype, copy=False)
        return clipped
