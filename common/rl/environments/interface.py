"""What a trained agent takes and gives outside of a3cd: the environment's own observations and actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import msgspec
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple, flatten, unflatten
from numpy.typing import NDArray

from common.errors import ObservationError
from common.rl.action_masks import choices, join, split
from common.rl.environments.actions import ActionMap
from common.rl.environments.frames import Camera
from common.rl.environments.make import make
from common.rl.environments.masks import KEY, flat, misfit
from common.rl.environments.names import is_atari, resolve
from common.rl.environments.spaces import COMPOSED
from common.rl.environments.wrappers import stacked
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment

Rows = NDArray[Any]
"""(B, *frame.shape) of frame.dtype."""


@dataclass(frozen=True, eq=False)
class Interface:
    """The observations and actions of one environment, and their conversion for a network."""

    space: gymnasium.Space[Any]
    """The space of an observation before it is stacked."""
    actions: ActionMap
    frame: ObservationSpec
    """The spec of an observation that `rows` returns."""
    observation: ObservationSpec
    """The spec of an observation that a network takes: stacked, or with an action mask."""
    stack: FrameStack | None
    """How observations are stacked; None: they are not."""
    camera: Camera | None
    """Shrinks pictures (height, width, 3) of the environment as in training; None: pictures are not accepted."""

    def rows(self, observation: Any) -> tuple[Rows, bool]:
        """Return the frames of one observation or of a batch, and whether it was a single observation.

        A batch has one more axis, in front; for a Dict or a Tuple it is a list. Raises ObservationError for anything
        else.
        """
        if isinstance(self.space, Dict | Tuple):
            one = not isinstance(observation, list)
            return self._flattened([observation] if one else observation), one
        array = self._array(observation)
        shape = self.space.shape or ()
        if array.shape not in (shape, (*array.shape[:1], *shape)) or not self._takes(array.dtype):
            raise self._unfit(array)
        one = array.ndim == len(shape)
        batch = array[None] if one else array
        if isinstance(self.space, COMPOSED):
            with np.errstate(invalid="ignore"):  # NaN becomes some number, which differs
                whole = batch.astype(self.space.dtype)
            if not np.array_equal(whole, batch) or not all(map(self.space.contains, whole)):
                raise ObservationError(f"the observation is not of {self.space}: {batch[:1].tolist()}")
            return self._flattened(list(whole)), one
        return self._discrete(batch) if isinstance(self.space, Discrete) else self._box(batch), one

    def masked(self, rows: Rows, mask: Any, *, one: bool) -> Rows:
        """Return the network's inputs: `rows`, joined with the mask that came with their observations.

        mask: as in info, for a batch (B, action.width); None: there was none. Raises ObservationError for a mask that
        the agent does not take, for the lack of one that it needs, and for a mask that does not fit.
        """
        if self.observation.seen is None:
            if mask is not None:
                raise ObservationError("action_mask: this agent was trained without environment.action_masks")
            return rows
        if mask is None:
            raise ObservationError(f'this agent takes action_mask=info["{KEY}"] with each observation')
        found = flat(mask) if one else np.asarray(mask)
        width = self.actions.spec.width
        if wrong := misfit(found, (width,) if one else (len(rows), width)):
            raise ObservationError(f"action_mask {wrong}")
        found = found.reshape(len(rows), width)
        if not all((found[:, choice] != 0).any(axis=1).all() for choice in choices(self.actions.spec)):
            raise ObservationError("action_mask allows no action")
        return join(rows, found != 0)

    def mask(self, row: NDArray[Any]) -> dict[str, Any]:
        """Return the info that goes with the observation in `row`, (*observation.shape): its mask, if it has one."""
        width = self.actions.spec.width
        return {} if self.observation.seen is None else {KEY: row[-width:].astype(np.int8)}

    def given(self, row: NDArray[Any]) -> Any:
        """Return the environment's observation that became `row`, in memory of its own.

        row: (*frame.shape), or (*observation.shape) if it has a mask.
        """
        if self.observation.seen is not None:
            row = split(self.observation.seen, row[None])[0][0]
        if isinstance(self.space, COMPOSED):
            return unflatten(self.space, row.copy())  # its parts may be views
        if isinstance(self.space, Discrete):
            return self.space.dtype.type(np.int64(row) + np.int64(self.space.start))
        return (row if row.shape == self.space.shape else row.transpose(1, 2, 0)).astype(self.space.dtype)

    def _takes(self, dtype: np.dtype[Any]) -> bool:
        if self.frame.kind == "pixels":
            return dtype == np.uint8
        return dtype.kind in ("iu" if isinstance(self.space, Discrete) else "iufb")

    def _array(self, observation: Any) -> NDArray[Any]:
        try:
            array = np.asarray(observation)
        except ValueError as error:
            raise ObservationError(f"the observation is no array: {error}") from error
        if self.camera and array.ndim in (3, 4) and array.shape[-1] == 3 and array.dtype == np.uint8:
            shrunk = self.camera.shrunk
            return shrunk(array) if array.ndim == 3 else np.stack([shrunk(picture) for picture in array])
        return array[None] if self.frame.kind == "pixels" and self.space.shape == (1, *array.shape) else array

    def _discrete(self, batch: NDArray[Any]) -> Rows:
        rows: Rows = batch.astype(np.int64) - self.space.start  # type: ignore[attr-defined]
        if ((rows < 0) | (rows >= self.frame.size)).any():
            raise ObservationError(f"the observation is beyond {self.space}: {batch[:5].tolist()}")
        return rows

    def _box(self, batch: NDArray[Any]) -> Rows:
        if self.frame.kind == "pixels":
            return (batch if batch.shape[1:] == self.frame.shape else batch.transpose(0, 3, 1, 2)).copy()
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, and is refused
            return self._finite(batch.astype(np.float32))

    def _flattened(self, many: Sequence[Any]) -> Rows:
        """Return (B, numbers): each observation, flattened as gymnasium does."""
        rows = np.zeros((len(many), self.frame.size), np.float32)
        for row, each in zip(rows, many, strict=True):
            try:
                row[:] = np.asarray(flatten(self.space, each))
                if not _chosen(self.space, each):
                    raise ValueError("a choice that is none of its space")
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ObservationError(f"the observation does not fit {self.space}: {error}") from error
        return self._finite(rows)

    def _finite(self, rows: Rows) -> Rows:
        if not np.isfinite(rows).all():
            raise ObservationError("the observation has a number that is not finite (NaN, infinity, or too large)")
        return rows

    def _unfit(self, array: NDArray[Any]) -> ObservationError:
        shape = self.space.shape or ()
        batch = ", ".join(map(str, ("B", *shape)))
        kind = {"box": "numbers", "pixels": "uint8", "discrete": "integers"}[self.frame.kind]
        drawn = "; a picture (height, width, 3) of the environment, of uint8, does as well" if self.camera else ""
        return ObservationError(
            f"the observation has shape {array.shape} of {array.dtype}; here one has {shape} of {kind}, and a batch "
            f"of B has ({batch}){drawn}"
        )


def _chosen(space: gymnasium.Space[Any], part: Any) -> bool:
    """Return whether each choice in an observation is one of its space; flattened, another would look like one."""
    if isinstance(space, Dict):
        return all(_chosen(one, part[key]) for key, one in space.items())
    if isinstance(space, Tuple):
        return all(_chosen(one, its) for one, its in zip(space, part, strict=True))
    if isinstance(space, Discrete) and isinstance(part, np.ndarray) and part.size == 1:
        part = part.item()  # some environments give an array of one number
    return isinstance(space, Box) or space.contains(part)


def interface(section: Environment) -> Interface:
    """Return the interface of a run's environment, one of which is made and closed; raises as `make`."""
    section = resolve(section)
    environments = make(msgspec.structs.replace(section, frame_stack=1, step_seconds=0.0), num_envs=1, seed=0)
    environments.close()
    observation, depth, game = environments.observation, section.frame_stack, is_atari(section.id)
    crop = section.crop_top, section.crop_bottom
    camera = Camera(section.frame_size, crop) if section.observation == "frames" else None
    return Interface(
        space=camera.space if camera else environments.space,
        actions=environments.actions,
        frame=observation.bare,
        observation=stacked(observation, depth) if depth > 1 else observation,
        stack=FrameStack(depth, padded=game) if depth > 1 else None,
        camera=None if game else camera,
    )
