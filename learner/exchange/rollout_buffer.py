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
    """A complete rollout, in memory of its own."""

    rollout: Rollout
    version: int
    """Mean version of the weights that acted."""
    moments: Moments | None


class GroupBuffer:
    """Builds one rollout after the other from observations that are sent without their stacked frames."""

    def __init__(self, buffer: RolloutBuffer, stack: FrameStack, rng: np.random.Generator) -> None:
        """`buffer` holds one rollout of the group's environments; `rng` draws their actions."""
        self.buffer = buffer
        self.rng = rng
        self._stack = stack
        self._versions = 0
        """Sum of the acting versions over the steps so far."""

    def begin(self, seen: StepBatch) -> None:
        """Drop the rollout under way; new episodes begin with `seen`."""
        self._versions = 0
        self.buffer.begin()
        self._first(seen.observations)

    def acted(self, actions: Actions, log_probs: Floats, version: int, state: Floats) -> None:
        """Keep the actions, as `RolloutBuffer.acted`.

        version: of the weights that acted; state: (B, state_size), the recurrent state after acting.
        """
        self.buffer.state = state
        self.buffer.acted(actions, log_probs)
        self._versions += version

    def stepped(self, seen: StepBatch) -> Completed | None:
        """Keep what the step with these actions led to; return the rollout if this was its last step.

        Raises NonFiniteError as `RolloutBuffer.finish` does.
        """
        buffer = self.buffer
        self._next(seen.observations, ~seen.valid)  # an invalid step is a dummy one, after which an episode begins
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
        """Stack the first observations of new episodes, (B, *frame)."""
        self._stack.begin(self.buffer.rows[0], frames, np.ones(self.buffer.num_envs, np.bool_))

    def _next(self, frames: NDArray[Any], fresh: NDArray[np.bool_]) -> None:
        """Stack the observations after a step, (B, *frame); fresh: (B,), which of them begin an episode."""
        rows, t = self.buffer.rows, self.buffer.t
        self._stack.push(rows[t + 1], rows[t], frames)
        self._stack.begin(rows[t + 1], frames, fresh)

    def _carry_on(self) -> None:
        """Begin the next rollout with the last observations."""
        self.buffer.carry_on(reuse=False)
