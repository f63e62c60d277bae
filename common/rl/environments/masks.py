"""Which actions each environment of a batch allows: `action_mask` in the info of its reset and its steps."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigurationError, EnvironmentMissingError, UnavailableError
from common.rl.action_masks import choices
from common.rl.action_spec import ActionSpec
from common.rl.environments.base import Environments
from common.rl.observation_spec import ObservationSpec

_log = logging.getLogger(__name__)
_told = False
KEY = "action_mask"
_UNUSED = "this environment says which actions are allowed: environment.action_masks = true makes use of it"


class ActionMasks:
    """The masks (B, action.width) of a batch, 1 where an action is allowed."""

    def __init__(self, action: ActionSpec, count: int, name: str) -> None:
        """name: of the environment, for error messages."""
        self.array = np.ones((count, action.width), np.float32)
        self._name = name
        self._choices = choices(action)

    def put(self, index: int, info: Mapping[str, Any], *, ended: bool, after: str) -> None:
        """Take one environment's mask. If its episode has ended, the mask may be missing or allow no action.

        after: reset or step. Raises EnvironmentMissingError for a missing mask and for one of another size, and
        UnavailableError for one that allows no action.
        """
        row = self.array[index]
        mask = info.get(KEY)
        if mask is None and not ended:
            raise EnvironmentMissingError(f"environment {self._name}: {none(after)}")
        found = np.ones_like(row) if mask is None else flat(mask)
        if wrong := misfit(found, row.shape):
            raise EnvironmentMissingError(f'environment {self._name}: info["{KEY}"] after its {after} {wrong}')
        row[:] = found != 0
        for choice in self._choices:
            if row[choice].any():
                continue
            if not ended:
                raise UnavailableError(f'environment {self._name}: info["{KEY}"] after its {after} allows no action')
            row[choice] = 1


def none(after: str) -> str:
    """Return the error message for an environment without masks."""
    return (
        f'environment.action_masks = true, but info has no "{KEY}" after its {after}; leave that setting out, or have '
        "the environment say which actions are allowed"
    )


def misfit(mask: NDArray[Any], shape: tuple[int, ...]) -> str:
    """Return what is wrong with a mask that should have this shape, (action.width,) or (B, action.width); else ""."""
    if mask.shape == shape and mask.dtype.kind in "biuf":
        return ""
    each = " for each observation" if len(shape) > 1 else ""
    return (
        f"is of shape {mask.shape} and {mask.dtype}; it takes {shape[-1]} numbers{each}, 1 for each action that is "
        "allowed, else 0"
    )


def flat(mask: Any) -> NDArray[Any]:
    """Return a mask as one array; that of a MultiDiscrete may be a tuple of arrays, one for each choice."""
    if isinstance(mask, tuple | list):
        try:
            return np.concatenate([np.ravel(one) for one in mask])
        except ValueError:
            return np.zeros(0, np.object_)
    return np.asarray(mask)


def tell_once(environments: Environments) -> None:
    """Log, once in this process, that masks could be used."""
    global _told
    if environments.masks_unused and not _told:
        _log.info(_UNUSED)
        _told = True


def check(name: str, observation: ObservationSpec, action: ActionSpec) -> None:
    """Raise ConfigurationError if masks do not go with the spaces of the environment `name`."""
    asked = "environment.action_masks = true"
    if action.kind == "box":
        raise ConfigurationError(f"{asked} is for Discrete and MultiDiscrete actions; {name} has a Box")
    if observation.kind == "pixels":
        raise ConfigurationError(
            f"{asked} does not go with pictures, which {name} gives: put a wrapper round it that gives numbers"
        )
