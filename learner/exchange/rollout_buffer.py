"""The rollout under way of one group of environments that the learner acts for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Floats
from common.rl.frame_stack import FrameStack
from common.rl.moments import Moments
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout
from common.rl.rollout_buffer import RolloutBuffer
from common.wire.bodies.observations import StepBatch


class Completed(NamedTuple):
    """A rollout in memory of its own."""

    rollout: Rollout
    version: int
    """Mean version of the weights that acted."""
    moments: Moments | None = None
    """For running statistics."""


class GroupBuffer:
    """Rollouts of `steps` steps, one after the other, from observations that travel without their stacked frames."""

    def __init__(
        self,
        observation: ObservationSpec,
        action: ActionSpec,
        *,
        count: int,
        steps: int,
        stack: FrameStack,
        rewards: RewardTransform,
        state_size: int,
        rng: np.random.Generator,
    ) -> None:
        """observation: stacked, as the network takes it. count: environments. rng: draws the group's actions."""
        self.rng = rng
        self.count = count
        self._stack = stack
        self._versions = 0
        """Sum over the steps taken."""
        self._buffer = RolloutBuffer(
            observation, action, num_envs=count, capacity=steps, state_size=state_size, rewards=rewards
        )

    @property
    def observations(self) -> Tensor:
        """(B, *shape): those that the next actions are for."""
        return self._buffer.observations

    @property
    def state(self) -> Tensor:
        """(B, state_size): the network's, before `observations`; never changed in place."""
        return self._buffer.state

    def begin(self, seen: StepBatch) -> None:
        """Drop the rollout under way; new episodes begin with `seen`."""
        self._versions = 0
        self._buffer.begin()
        self._stack.begin(self._buffer.rows[0], seen.observations, np.ones(self.count, np.bool_))

    def acted(self, actions: Actions, log_probs: Floats, version: int, state: Tensor) -> None:
        """actions: (B, *action.shape) for `observations`; log_probs: (B,); version: of the weights that acted.

        state: (B, state_size) of the network after them.
        """
        self._buffer.state = state
        self._buffer.acted(actions, log_probs)
        self._versions += version

    def stepped(self, seen: StepBatch) -> Completed | None:
        """The step with these actions led to `seen`; return the rollout if it was its last step.

        Raises NonFiniteError as `RolloutBuffer.finish`.
        """
        buffer = self._buffer
        t = buffer.t
        self._stack.push(buffer.rows[t + 1], buffer.rows[t], seen.observations)
        self._stack.begin(buffer.rows[t + 1], seen.observations, ~seen.valid)  # after a dummy step
        buffer.stepped(seen.rewards, seen.terminated, seen.valid)
        if not buffer.full:
            return None
        version, self._versions = self._versions // buffer.t, 0
        try:
            rollout, moments = buffer.finish()
        finally:
            buffer.carry_on(reuse=False)
        return Completed(rollout, version, moments)
