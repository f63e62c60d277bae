"""Collects the current rollout of a batch of environments, in the actor or in a learner that acts for it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.action_spec import ActionSpec
from common.rl.distributions.base import Actions, Floats
from common.rl.moments import Moments
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout


class RolloutBuffer:
    """Arrays of `capacity` steps of B environments, to be filled in this order.

    Write `rows[0]` and call `begin`; for each step call `acted`, write `rows[t + 1]` and call `stepped`; after enough
    steps call `finish`, then `carry_on` before anything else.
    """

    def __init__(
        self,
        observation: ObservationSpec,
        action: ActionSpec,
        *,
        num_envs: int,
        capacity: int,
        state_size: int,
        rewards: RewardTransform,
    ) -> None:
        self.num_envs = num_envs
        self.state = np.zeros((num_envs, state_size), np.float32)
        """The network's state before `observations`; never changed in place."""
        self._observation = observation
        self._action = action
        self._transform = rewards
        self._allocate(capacity)
        self._restart()

    @property
    def full(self) -> bool:
        return self.t == self.capacity

    @property
    def observations(self) -> NDArray[Any]:
        """(B, *shape): the observations to act on next; a view."""
        row: NDArray[Any] = self.rows[self.t]
        return row

    def begin(self) -> None:
        """Drop the current rollout; `rows[0]` are the first observations of new episodes."""
        self.state = np.zeros_like(self.state)
        self._restart()
        self._transform.restart()

    def acted(self, actions: Actions, log_probs: Floats) -> None:
        """Store actions (B, *action.shape) for `observations`, and log_probs (B,) under the policy that acted."""
        self._actions[self.t] = actions
        self._log_probs[self.t] = log_probs

    def stepped(self, rewards: NDArray[np.float32], terminated: NDArray[np.bool_], valid: NDArray[np.bool_]) -> None:
        """Store the results (B,) of the step that led to `rows[t + 1]`. valid: False where it was a dummy step."""
        self._rewards[self.t] = rewards
        self._terminated[self.t] = terminated
        self._valid[self.t] = valid
        self.state = masked_state(self.state, valid)
        self.t += 1

    def finish(self) -> tuple[Rollout, Moments | None]:
        """Return the rollout of the steps taken, which shares this buffer's memory, and moments.

        The moments are those of `RewardTransform.apply`. Raises NonFiniteError as that does: the rollout is lost, and
        the episodes go on.
        """
        self.finished = True
        t = self.t
        rewards, moments = self._transform.apply(self.rows[:t], self._rewards[:t], self._valid[:t])
        rollout = Rollout(
            observations=self.rows[: t + 1],
            actions=self._actions[:t],
            rewards=rewards,
            terminated=self._terminated[:t],
            valid=self._valid[:t],
            behaviour_log_probs=self._log_probs[:t],
            state=self._first_state if self._first_state.shape[1] else None,
        )
        return rollout, moments

    def carry_on(self, *, reuse: bool) -> None:
        """Begin the next rollout with the last observations. reuse: in the memory of the last rollout."""
        last = self.observations
        if not reuse:
            self._allocate(self.capacity)
        self.rows[0] = last
        self._restart()

    def grow(self) -> None:
        """Double the capacity; the steps taken are kept."""
        before = self._arrays()
        self._allocate(2 * self.capacity)
        for old, new in zip(before, self._arrays(), strict=True):
            new[: len(old)] = old

    def _restart(self) -> None:
        self.t = 0
        """Steps taken of the current rollout."""
        self.finished = False
        """True between `finish` and `carry_on`."""
        self._first_state = self.state

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        shape = (capacity, self.num_envs)
        self.rows = np.zeros((capacity + 1, self.num_envs, *self._observation.shape), self._observation.dtype)
        """(capacity + 1, B, *shape): the observations, written by the caller."""
        self._actions = np.zeros((*shape, *self._action.shape), self._action.dtype)
        self._log_probs = np.zeros(shape, np.float32)
        self._rewards = np.zeros(shape, np.float32)
        self._terminated = np.zeros(shape, np.bool_)
        self._valid = np.zeros(shape, np.bool_)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return (self.rows, self._actions, self._log_probs, self._rewards, self._terminated, self._valid)


def masked_state(state: Floats, valid: NDArray[np.bool_]) -> Floats:
    """Return the state (B, state_size), set to 0 where `valid` (B,) is False: an episode begins after a dummy step."""
    if state.shape[1] and not valid.all():
        return np.where(valid[:, np.newaxis], state, np.float32(0))
    return state
