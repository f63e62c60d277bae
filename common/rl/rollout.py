"""A rollout: some steps of several environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Rollout:
    """T steps of B environments, time first.

    Environments reset on the step after an episode's end (gymnasium's AutoresetMode.NEXT_STEP). If step t ended an
    episode, observations[t + 1] is its final observation, step t + 1 is a dummy (its action is ignored, its reward is
    0, `valid` is False), and observations[t + 2] is the first of the next episode. So V(observations[t + 1]) is always
    the right bootstrap of a valid step: only `terminated` sets the discount to 0, and a time limit needs no flag. The
    dummy contributes no error and carries no trace, so nothing of the next episode reaches the one before.
    """

    observations: NDArray[Any]
    """(T + 1, B, *shape): the last one is for bootstrapping only."""
    actions: NDArray[Any]
    """(T, B, *action.shape) of action.dtype: as they were drawn, before the environment bounds them."""
    rewards: NDArray[np.float32]
    """(T, B) float32, scaled and clipped for learning."""
    terminated: NDArray[np.bool_]
    """(T, B) bool: the discount after this step is 0. No dummy follows a lost life that counts as an end."""
    valid: NDArray[np.bool_]
    """(T, B) bool: False for a dummy step."""
    behaviour_log_probs: NDArray[np.float32]
    """(T, B) float32: log-probability of the action under the policy that acted."""
    state: NDArray[np.float32] | None = None
    """(B, state_size) float32: a recurrent network's state before the first observation; None: it is feed-forward.

    It is the acting policy's state, not computed anew with newer weights (the "stored state" of Kapturowski et al.
    2019, R2D2; IMPALA does the same). The states within the rollout are computed anew, and are 0 after a dummy."""

    targets: NDArray[np.float32] | None = None
    """(1, N) float32: what the values are to learn. Only in a rollout that `apart` returned."""
    advantages: NDArray[np.float32] | None = None
    """(1, N) float32. Only together with the targets."""

    def __post_init__(self) -> None:
        steps, num_envs = self.actions.shape[:2]
        estimates = () if self.targets is None else ("targets", "advantages")
        for name in ("rewards", "terminated", "valid", "behaviour_log_probs", *estimates):
            if (shape := getattr(self, name).shape) != (steps, num_envs):
                raise ValueError(f"rollout: {name} has shape {shape}, actions have {(steps, num_envs)}")
        observed = steps if estimates else steps + 1
        if (shape := self.observations.shape[:2]) != (observed, num_envs):
            raise ValueError(f"rollout: observations begin with {shape}, not {(observed, num_envs)}")
        if self.state is not None and (self.state.ndim != 2 or len(self.state) != num_envs):
            raise ValueError(f"rollout: the state has shape {self.state.shape}, not ({num_envs}, state_size)")

    @cached_property
    def steps(self) -> int:
        """Number of valid steps."""
        return int(np.count_nonzero(self.valid))

    def columns(self, chosen: NDArray[np.int64]) -> Rollout:
        """Return the rollout of the environments `chosen` (n,)."""
        return Rollout(**{name: part.take(chosen, _axis(name)) for name, part in self._parts().items()})

    def apart(self, targets: NDArray[np.float32], advantages: NDArray[np.float32]) -> Self:
        """Return the steps as if each were in an environment of its own: (1, T B), without bootstrap observations.

        targets, advantages: (T, B), all that a step's loss needs of the later steps. For feed-forward networks only.
        """
        parts = self._parts() | {"observations": self.observations[:-1], "targets": targets, "advantages": advantages}
        return replace(self, **{name: part.reshape(1, -1, *part.shape[2:]) for name, part in parts.items()})

    def copy(self) -> Rollout:
        return Rollout(**{name: part.copy() for name, part in self._parts().items()})

    def _parts(self) -> dict[str, NDArray[Any]]:
        return {field.name: part for field in fields(self) if (part := getattr(self, field.name)) is not None}


def _axis(name: str) -> int:
    """Return the axis of the environments in the part `name`."""
    return 0 if name == "state" else 1


def join(rollouts: Sequence[Rollout]) -> Rollout:
    """Join rollouts of the same number of steps into one of all their environments."""
    if len(rollouts) == 1:
        return rollouts[0]
    parts = [rollout._parts() for rollout in rollouts]
    return Rollout(**{name: np.concatenate([part[name] for part in parts], axis=_axis(name)) for name in parts[0]})
