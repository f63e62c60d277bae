"""Playing: the policy steps a batch of environments until there is something to learn from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common.rl.algorithms.exploration import Acting
from common.rl.environments.base import Environments
from common.rl.environments.episodes import EpisodeTracker
from common.rl.episode import Episode
from common.rl.moments import Moments
from common.rl.networks.heads import PolicyValue
from common.rl.networks.recurrent_state import RecurrentState
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

FIRST_CAPACITY = 512
"""Steps there is room for at first when a rollout is a whole episode."""


@dataclass(frozen=True)
class Played:
    """A complete rollout; `data` shares the collector's memory and is valid until the next `advance`."""

    data: Rollout
    steps: int
    episodes: list[Episode]
    """Return, length, seconds of those that ended in it."""
    moments: Moments | None = None
    """Of what is counted for running statistics."""


class Collector:
    """Rollouts of `algorithm.rollout_length` steps per environment, or of one whole episode."""

    def __init__(
        self,
        environments: Environments,
        network: PolicyValue,
        observation: ObservationSpec,
        *,
        algorithm: Algorithm,
        shaping: RewardTransform,
        rng: np.random.Generator,
        acting: Acting,
    ) -> None:
        """Resets the environments, to the episodes of the seed they were made with; `rng` is for later ones."""
        self._environments, self._network, self._rng, self._acting = environments, network, rng, acting
        self._memory = RecurrentState(network, environments.count)
        self._observation, self._whole = observation, algorithm.whole_episodes
        self._shaping = shaping
        self._allocate(observation, FIRST_CAPACITY if self._whole else algorithm.rollout_length)
        self._episodes: list[Episode] = []
        self._begin(None)

    @property
    def fresh(self) -> bool:
        """Whether the next step is the first of a rollout."""
        return self._t == 0

    def restart(self) -> None:
        """Drops the rollout under way and starts new episodes everywhere."""
        # Without a seed of their own the episodes would be the first ones again, and fail where those failed.
        self._begin(int(self._rng.integers(2**31)))

    def _begin(self, seed: int | None) -> None:
        self._t = self._last = 0
        self._episodes.clear()
        self._memory.clear()
        self._shaping.restart()
        self._observations[0] = torch.from_numpy(self._environments.reset(seed))
        self._tracker = EpisodeTracker(self._environments.count, time.monotonic())

    def advance(self, until: float) -> Played | None:
        """Steps until the rollout is complete, or the time `until` has come and None is returned.

        Raises what `Environments.step` raises, and NonFiniteError as `RewardTransform.shape` (the rollout is dropped, the
        episodes go on).
        """
        if self._last:
            # Only now: the rollout before this one was still in use.
            self._observations[0] = self._observations[self._last]
            self._last = 0
        while True:
            ended = self._step()
            if self._t == self._capacity or (self._whole and ended):
                return self._complete()
            if time.monotonic() >= until:
                return None

    def _step(self) -> bool:
        t = self._t
        if t == 0:
            self._first_state = self._memory.state()
        outputs, _ = self._memory.act(self._observations[t])
        actions, log_probs = self._acting.draw(outputs.numpy())
        step = self._environments.step(actions)
        self._actions[t], self._log_probs[t] = actions, log_probs
        self._rewards[t], self._terminated[t], self._valid[t] = step.rewards, step.futureless, self._tracker.valid
        self._observation_rows[t + 1] = step.observations
        self._memory.keep(self._tracker.valid)
        finished = self._tracker.update(step.rewards, step.terminated, step.truncated, time.monotonic())
        self._episodes += finished
        self._t = t + 1
        if self._whole and self._t == self._capacity and not finished:
            self._grow()
        return bool(step.terminated[0] or step.truncated[0])

    def _complete(self) -> Played:
        t, self._t = self._t, 0
        self._last = t
        episodes, self._episodes = self._episodes, []
        rewards, counted = self._shaping.shape(self._observation_rows[:t], self._rewards[:t], self._valid[:t])
        data = Rollout(
            observations=self._observations[: t + 1],
            actions=torch.from_numpy(self._actions[:t]),
            rewards=torch.from_numpy(rewards),
            terminated=torch.from_numpy(self._terminated[:t]),
            valid=torch.from_numpy(self._valid[:t]),
            behaviour_log_probs=torch.from_numpy(self._log_probs[:t]),
            state=self._first_state,
        )
        return Played(data, int(np.count_nonzero(self._valid[:t])), episodes, counted)

    def _allocate(self, observation: ObservationSpec, capacity: int) -> None:
        count = self._environments.count
        self._capacity = capacity
        self._observations = torch.zeros((capacity + 1, count, *observation.shape), dtype=observation.dtype)
        self._observation_rows = self._observations.numpy()
        action = self._network.action
        self._actions = np.zeros((capacity, count, *action.shape), action.dtype)
        self._log_probs = np.zeros((capacity, count), np.float32)
        self._rewards = np.zeros((capacity, count), np.float32)
        self._terminated = np.zeros((capacity, count), np.bool_)
        self._valid = np.zeros((capacity, count), np.bool_)

    def _grow(self) -> None:
        """Twice the room, for an episode that is longer than any before."""
        old = self._arrays()
        self._allocate(self._observation, 2 * self._capacity)
        new = self._arrays()
        for before, after in zip(old, new, strict=True):
            after[: len(before)] = before

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return (self._observation_rows, self._actions, self._log_probs, self._rewards, self._terminated, self._valid)
