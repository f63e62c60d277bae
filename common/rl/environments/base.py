"""The batch of environments every actor steps, whatever is behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from common.errors import UnavailableError
from common.rl.action_spec import ActionSpec

Observations = NDArray[Any]
"""(B, *shape): float32, uint8 pictures (channels first), or int64 (B,) for discrete observations."""
Actions = NDArray[Any]
"""(B, *action.shape) of action.dtype."""


class Step(NamedTuple):
    """What one step of the batch gave; the arrays are overwritten by the next `step` or `reset`."""

    observations: Observations
    rewards: NDArray[np.float32]
    """(B,): as the environment gave them, summed over repeated frames; neither scaled nor clipped."""
    terminated: NDArray[np.bool_]
    """(B,): the episode ended in a state without future."""
    truncated: NDArray[np.bool_]
    """(B,): the episode was cut off, by a time limit for instance; may be True together with terminated."""
    life_lost: NDArray[np.bool_] | None = None
    """(B,): a life was lost, which learning is to take for an end while the episode goes on; None: nothing is."""

    @property
    def futureless(self) -> NDArray[np.bool_]:
        """(B,): where the discount is 0 for learning."""
        return self.terminated if self.life_lost is None else self.terminated | self.life_lost


class Environments(ABC):
    """`count` copies of one environment, stepped as one (gymnasium's `AutoresetMode.NEXT_STEP`).

    The step that ends an episode returns that episode's last observation. The next step is a dummy for that copy:
    the action is ignored, the observation is the first of the new episode, the reward is 0, and neither
    terminated nor truncated is set. The caller masks it, knowing who ended the step before (`EpisodeTracker.valid`).

    Errors: `reset` and `step` raise UnavailableError, naming the environment, when its own code raises.
    """

    count: int
    """B, the number of copies."""
    observation_space: gymnasium.Space[Any]
    """Of one observation as it is returned: Box of float32, Box of uint8 (C, H, W), or Discrete from 0."""
    action: ActionSpec
    """Of what `step` takes: numbered from 0 whatever the environment's own numbering, or without bounds (a Box)."""
    frames_per_step: int
    """Steps of the environment's own clock (emulator frames) per step of the agent."""

    @abstractmethod
    def reset(self, seed: int | None = None) -> Observations:
        """Starts a new episode in every copy; returns its first observations, (B, *shape).

        seed: of this batch, 0 or more; the one given at construction if None. The same seed gives the same
        episodes for the same actions; copies of one batch and of batches with other seeds differ.
        """

    @abstractmethod
    def step(self, actions: Actions) -> Step:
        """Takes one action, (B, *action.shape), in every copy."""

    @abstractmethod
    def render(self) -> NDArray[np.uint8]:
        """The first copy's picture now, (H, W, 3); the batch must have been made with render_mode='rgb_array'."""

    @abstractmethod
    def close(self) -> None:
        """Frees what the copies hold; nothing else may be called afterwards."""


def failure(name: str, doing: str, error: Exception) -> UnavailableError:
    """The error to raise when an environment's own code raised `error` in `doing` (reset or step)."""
    text = " ".join(str(error).split())
    return UnavailableError(f"environment {name} failed in {doing}: {type(error).__name__}: {text}")
