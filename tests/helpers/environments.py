"""Environments in which every step is known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from common.rl.action_spec import discrete
from common.rl.environments.actions import ActionMap
from common.rl.environments.base import Environments, Step
from common.rl.observation_spec import ObservationSpec


class Scripted(Environments):
    """Copy b's observation is (episode, step), its reward `rewards[step]`; its episodes have `lengths[b]` steps.

    Episodes of copies in `cut` are truncated, all others terminated. `rewards` repeat. `life_ends`: the step at which
    every copy loses a life.
    """

    observation = ObservationSpec((2,), "box", 2)
    action = discrete(3)
    actions = ActionMap(Discrete(3))
    space = Box(0, np.inf, (2,))
    frames_per_step = 4

    def __init__(
        self,
        lengths: Sequence[int] = (3, 5),
        *,
        rewards: Sequence[float] = (1.0,),
        cut: Sequence[int] = (),
        life_ends: int | None = None,
    ) -> None:
        self.count = len(lengths)
        self.lengths, self.rewards, self.cut, self.life_ends = lengths, list(rewards), cut, life_ends
        self.seeds: list[int | None] = []
        """Seeds of all resets."""
        self.taken: list[NDArray[np.int64]] = []
        self.fails = False
        self.closed = False

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        self.seeds.append(seed)
        self._episodes = [0] * self.count
        self._steps = [0] * self.count
        self._ended = [False] * self.count
        return self._observations()

    def step(self, actions: NDArray[np.int64]) -> Step:
        if self.fails:
            raise RuntimeError("it failed")
        self.taken.append(actions)
        rewards = np.zeros(self.count, np.float32)
        terminated, truncated = np.zeros(self.count, np.bool_), np.zeros(self.count, np.bool_)
        for copy in range(self.count):
            if self._ended[copy]:
                self._ended[copy] = False
                self._episodes[copy] += 1
                self._steps[copy] = 0
                continue
            rewards[copy] = self.rewards[self._steps[copy] % len(self.rewards)]
            self._steps[copy] += 1
            if self._steps[copy] == self.lengths[copy]:
                self._ended[copy] = True
                (truncated if copy in self.cut else terminated)[copy] = True
        lost = None if self.life_ends is None else np.array(self._steps) == self.life_ends
        return Step(self._observations(), rewards, terminated, truncated, lost)

    def render(self) -> NDArray[np.uint8]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    def _observations(self) -> NDArray[Any]:
        return np.array(list(zip(self._episodes, self._steps, strict=True)), np.float32)
