"""Action masks: they are the last numbers of an observation, and a network gives forbidden actions probability 0.

An observation of `masked` is a row of float32: first the numbers that the network's layers see, then one number for
each output of the policy: 1 where the action is allowed, 0 where it is forbidden. So rollouts, trajectories and
messages carry masks as parts of observations. The policy's outputs for forbidden actions are set to FORBIDDEN, so that
log-probabilities, entropies and gradients are those of the allowed actions alone (Huang and Ontanon 2020,
https://arxiv.org/abs/2006.14171).
"""

import math
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.action_spec import ActionSpec
from common.rl.observation_spec import ObservationSpec

FORBIDDEN = -1e30
"""The policy's output for a forbidden action: finite, since 0 * -inf is NaN; below any learnt value; its exp is 0."""
Floats = NDArray[np.float32]


def masked(seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
    """Return the spec of observations of `seen`, each followed by an action mask; not for pictures or Box actions."""
    numbers = math.prod(seen.shape) + action.width
    return ObservationSpec((numbers,), "box", numbers, seen)


def choices(action: ActionSpec) -> list[slice]:
    """Return, for each choice of the action, the slice of the mask that belongs to it."""
    return [slice(*ends) for ends in pairwise([0, *accumulate(action.sizes)])]


def first_allowed(action: ActionSpec, masks: NDArray[Any]) -> NDArray[np.int64]:
    """Return actions (N, *action.shape): for each choice the first that the masks (N, action.width) allow."""
    columns = [(masks[:, choice] != 0).argmax(axis=1) for choice in choices(action)]
    return np.stack(columns, axis=1).reshape(-1, *action.shape)


def join(observations: NDArray[Any], masks: NDArray[Any]) -> Floats:
    """Return rows (N, numbers): observations (N, *seen.shape), each followed by its mask (N, action.width)."""
    count = len(observations)
    numbers = math.prod(observations.shape[1:])
    return np.concatenate([observations.reshape(count, numbers), masks], axis=1, dtype=np.float32)


def split(seen: ObservationSpec, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Split rows (N, numbers): return observations (N, *seen.shape) of seen.dtype, and masks (N, action.width)."""
    numbers = math.prod(seen.shape)
    observations = rows[:, :numbers].reshape(len(rows), *seen.shape).astype(seen.dtype, copy=False)
    return observations, rows[:, numbers:] != 0
