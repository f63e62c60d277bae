"""What the learner keeps of one group of environments that it acts for: the rollout under way."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Floats
from common.rl.moments import Moments
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout
from common.wire.bodies.observations import StepBatch, unstacked


class Completed(NamedTuple):
    """A rollout; its memory is its own."""

    rollout: Rollout
    version: int
    """Of the weights that acted, on average."""
    moments: Moments | None = None
    """Of what is counted for running statistics."""


class RolloutBuffer:
    """Rollouts of so many steps, one after the other."""

    def __init__(
        self,
        observation: ObservationSpec,
        action: ActionSpec,
        *,
        count: int,
        steps: int,
        stack: int = 1,
        padded: bool = False,
        shaping: RewardTransform,
        state: int = 0,
        rng: np.random.Generator,
    ) -> None:
        """`observation`: as the network sees it, of `stack` that came one by one. An episode begins with its first one
        repeated, or `padded` with zeros, as the environments' own stacks do. `state`: the network's state_size.
        `rng` draws the group's actions.
        """
        self.rng = rng
        self._observation, self._action = observation, action
        self._count, self._steps = count, steps
        self._parts_shape = (count, stack, *unstacked(observation, stack).shape)
        self._padded = padded
        self._shaping = shaping
        self.state = self._first_state = torch.zeros(count, state)
        """(B, state_size) of a recurrent network, before `observations`; 0 where an episode starts. Never written."""
        self._allocate()

    @property
    def count(self) -> int:
        """Environments."""
        return self._count

    @property
    def observations(self) -> Tensor:
        """(B, *shape): what the next actions are for."""
        return self._observations[self._t]

    def begin(self, seen: StepBatch) -> None:
        """From here on; what there was of a rollout is dropped."""
        self._t = 0
        self._versions = 0
        self._shaping.restart()
        self.state = self._first_state = torch.zeros_like(self.state)
        self._show(0, seen, np.ones(self._count, np.bool_))

    def acted(self, actions: Actions, log_probs: Floats, version: int, state: Tensor | None = None) -> None:
        """These (B, *action.shape) actions, with their log-probabilities (B,), answer `observations`.

        `state`: (B, state_size) of a recurrent network after them.
        """
        if state is not None:
            self.state = state
        self._actions[self._t], self._log_probs[self._t] = actions, log_probs
        self._versions += version

    def took(self, seen: StepBatch) -> Completed | None:
        """What the step with these actions led to, and the rollout if it was its last step.

        Raises NonFiniteError as `RewardTransform.shape`: the rollout is dropped, the episodes go on.
        """
        t = self._t
        self._rewards[t], self._terminated[t], self._valid[t] = seen.rewards, seen.terminated, seen.valid
        self._show(t + 1, seen, ~seen.valid)  # a step that does not count shows the first of an episode
        if not seen.valid.all():
            self.state = torch.where(torch.from_numpy(seen.valid).unsqueeze(1), self.state, 0.0)
        self._t = t + 1
        return self._complete() if self._t == self._steps else None

    def _show(self, t: int, seen: StepBatch, fresh: NDArray[np.bool_]) -> None:
        if self._parts_shape[1] == 1:
            self._rows[t] = seen.observations.reshape(self._rows.shape[1:])
            return
        parts = self._rows[t].reshape(self._parts_shape)
        newest = seen.observations.reshape(parts[:, 0].shape)
        if t:
            parts[:, :-1] = self._rows[t - 1].reshape(self._parts_shape)[:, 1:]
        if fresh.any():
            parts[fresh, :-1] = 0 if self._padded else newest[fresh, None]
        parts[:, -1] = newest

    def _complete(self) -> Completed:
        given, rows, valid = self._rewards, self._rows, self._valid
        rollout = Rollout(
            observations=self._observations,
            actions=torch.from_numpy(self._actions),
            rewards=torch.from_numpy(given),
            terminated=torch.from_numpy(self._terminated),
            valid=torch.from_numpy(valid),
            behaviour_log_probs=torch.from_numpy(self._log_probs),
            state=self._first_state if self.state.shape[1] else None,
        )
        self._first_state = self.state
        version = self._versions // self._steps
        self._allocate()
        self._observations[0] = rollout.observations[-1]
        rewards, counted = self._shaping.shape(rows[:-1], given, valid)
        return Completed(replace(rollout, rewards=torch.from_numpy(rewards)), version, counted)

    def _allocate(self) -> None:
        self._t = self._versions = 0
        shape = (self._steps, self._count)
        self._observations = torch.zeros(
            (self._steps + 1, self._count, *self._observation.shape), dtype=self._observation.dtype
        )
        self._rows = self._observations.numpy()
        self._actions = np.zeros((*shape, *self._action.shape), self._action.dtype)
        self._log_probs = np.zeros(shape, np.float32)
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)
