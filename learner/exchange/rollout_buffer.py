"""The rollout under way of one group of environments that the learner acts for."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl.distributions.base import Actions, Floats
from common.rl.frame_stack import FrameStack
from common.rl.moments import Moments
from common.rl.rollout import Rollout
from common.rl.rollout_buffer import RolloutBuffer
from common.wire.bodies.observations import StepBatch


class Completed(NamedTuple):
    """A rollout in memory of its own."""

    rollout: Rollout
    version: int
    """Mean version of the weights that acted."""
    moments: Moments | None


class GroupBuffer:
    """Rollouts, one after the other, from observations that travel without their stacked frames."""

    def __init__(self, buffer: RolloutBuffer, stack: FrameStack, rng: np.random.Generator) -> None:
        """`buffer` holds one rollout of the group's environments; `rng` draws their actions."""
        self.buffer = buffer
        self.rng = rng
        self._stack = stack
        self._versions = 0
        """Sum over the steps taken."""

    def begin(self, seen: StepBatch) -> None:
        """Drop the rollout under way; new episodes begin with `seen`."""
        self._versions = 0
        self.buffer.begin()
        self._first(seen.observations)

    def acted(self, actions: Actions, log_probs: Floats, version: int, state: Floats) -> None:
        """As `RolloutBuffer.acted`; version: of the weights that acted; state: (B, state_size) after them."""
        self.buffer.state = state
        self.buffer.acted(actions, log_probs)
        self._versions += version

    def stepped(self, seen: StepBatch) -> Completed | None:
        """The step with these actions led to `seen`; return the rollout if it was its last step.

        Raises NonFiniteError as `RolloutBuffer.finish`.
        """
        buffer = self.buffer
        self._next(seen.observations, ~seen.valid)  # after a dummy step an episode begins
        buffer.stepped(seen.rewards, seen.terminated, seen.valid)
        if not buffer.full:
            return None
        version, self._versions = self._versions // buffer.t, 0
        try:
            rollout, moments = buffer.finish()
        finally:
            self._carry_on()
        return Completed(rollout, version, moments)

    def _first(self, frames: NDArray[Any]) -> None:
        """The first observations of new episodes (B, *frame)."""
        self._stack.begin(self.buffer.rows[0], frames, np.ones(self.buffer.num_envs, np.bool_))

    def _next(self, frames: NDArray[Any], fresh: NDArray[np.bool_]) -> None:
        """The observations after the step, (B, *frame), and (B,) which of them begin an episode."""
        rows, t = self.buffer.rows, self.buffer.t
        self._stack.push(rows[t + 1], rows[t], frames)
        self._stack.begin(rows[t + 1], frames, fresh)

    def _carry_on(self) -> None:
        """The next rollout begins with the last observations."""
        self.buffer.carry_on(reuse=False)
