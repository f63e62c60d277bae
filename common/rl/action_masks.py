"""Which actions an environment allows: the last numbers of an observation, and what a network says of the others.

An observation of `masked` is a row of float32: the numbers that the layers see, then one for each output of the policy,
1 where it is allowed and 0 where not. So rollouts, trajectories and messages carry masks as they carry observations.
The network's outputs of what is not allowed are FORBIDDEN, so that log-probabilities, entropies and gradients are
those of the allowed actions alone (Huang and Ontanon 2020, https://arxiv.org/abs/2006.14171).
"""

import math
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.action_spec import ActionSpec
from common.rl.observation_spec import ObservationSpec

FORBIDDEN = -1e30
"""Finite, since 0 * -inf is no number; less than any value that is learnt, and its exp is 0."""
Floats = NDArray[np.float32]


def masked(seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
    """Observations of `seen`, each with a mask of the action; not of pictures, and not of a Box."""
    numbers = math.prod(seen.shape) + action.width
    return ObservationSpec((numbers,), "box", numbers, seen)


def choices(action: ActionSpec) -> list[slice]:
    """Where the mask of each choice is in that of the action."""
    return [slice(*ends) for ends in pairwise([0, *accumulate(action.sizes)])]


def first_allowed(action: ActionSpec, masks: NDArray[Any]) -> NDArray[np.int64]:
    """Actions (N, *action.shape) that the masks (N, action.width) allow."""
    columns = [(masks[:, choice] != 0).argmax(axis=1) for choice in choices(action)]
    return np.stack(columns, axis=1).reshape(-1, *action.shape)


def join(observations: NDArray[Any], masks: NDArray[Any]) -> Floats:
    """(N, numbers) from observations (N, *seen.shape) and masks (N, action.width)."""
    count = len(observations)
    numbers = math.prod(observations.shape[1:])
    return np.concatenate([observations.reshape(count, numbers), masks], axis=1, dtype=np.float32)


def split(seen: ObservationSpec, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Observations (N, *seen.shape) of seen.dtype, and what is allowed (N, action.width), from rows (N, numbers)."""
    numbers = math.prod(seen.shape)
    observations = rows[:, :numbers].reshape(len(rows), *seen.shape).astype(seen.dtype, copy=False)
    return observations, rows[:, numbers:] != 0
