"""Plays rollouts of a policy in a batch of environments."""

import logging
import math
from dataclasses import dataclass

import numpy as np

from common.rl.algorithms.exploration import Exploration
from common.rl.environments.base import Environments
from common.rl.environments.episodes import EpisodeTracker
from common.rl.episode import Episode
from common.rl.model import Model
from common.rl.moments import Moments
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout
from common.rl.rollout_buffer import RolloutBuffer
from common.settings.sections import Algorithm

FIRST_CAPACITY = 512
"""Steps that the buffer first has room for when a rollout is a whole episode."""
SLOW_SECONDS = 20.0
"""Expected duration of a rollout above which a warning is logged: until it is complete, the run has no frames of it."""
SLOW_STEPS = 3
"""Slow steps in a row before that warning."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Played:
    """A complete rollout; `data` shares the collector's memory and is valid until the next `advance`."""

    data: Rollout
    episodes: list[Episode]
    """Episodes that ended in this rollout."""
    moments: Moments | None = None
    """Moments of the rollout's data, for the running statistics; None: none are kept."""


class Collector:
    """Plays rollouts of `algorithm.rollout_length` steps per environment, or of one whole episode."""

    def __init__(
        self,
        environments: Environments,
        model: Model,
        observation: ObservationSpec,
        *,
        algorithm: Algorithm,
        rewards: RewardTransform,
        exploration: Exploration,
        rng: np.random.Generator,
    ) -> None:
        """Resets the environments to the first episodes of the seed they were made with; `rng` draws later seeds."""
        self._environments = environments
        self._clock = environments.clock
        self._model = model
        self._exploration = exploration
        self._rng = rng
        self._whole = algorithm.whole_episodes
        self._buffer = RolloutBuffer(
            observation,
            model.action,
            num_envs=environments.count,
            capacity=FIRST_CAPACITY if self._whole else algorithm.rollout_length,
            state_size=model.state_size,
            rewards=rewards,
        )
        self._episodes: list[Episode] = []
        self._slow = math.inf if self._whole else SLOW_SECONDS / algorithm.rollout_length
        """Seconds of a step above which it is slow; infinite after the warning."""
        self._slow_steps = 0
        """Slow steps in a row; a single one may be the machine's fault."""
        self._begin(None)

    @property
    def fresh(self) -> bool:
        """Whether the next step is the first of a rollout."""
        return self._buffer.finished or self._buffer.t == 0

    def restart(self) -> None:
        """Drops the rollout under way and starts new episodes everywhere."""
        # Without a new seed the first episodes would be played again, and would fail at the same place.
        self._begin(int(self._rng.integers(2**31)))

    def _begin(self, seed: int | None) -> None:
        self._episodes.clear()
        self._buffer.begin()
        self._buffer.rows[0] = self._environments.reset(seed)
        self._tracker = EpisodeTracker(self._environments.count, self._environments.pace)

    def advance(self, until: float) -> Played | None:
        """Steps until the rollout is complete, or until the time `until`, and then returns None.

        Raises the errors of `Environments.step`, and NonFiniteError as `RolloutBuffer.finish`.
        """
        if self._buffer.finished:
            self._buffer.carry_on(reuse=True)  # only now: until this call the caller was using the memory
        while True:
            ended = self._step()
            if self._buffer.full or (self._whole and ended):
                return self._complete()
            if self._clock.monotonic() >= until:
                return None

    def _step(self) -> bool:
        """Takes one step. Returns whether an episode of the first environment ended."""
        buffer = self._buffer
        outputs, after = self._model.step(buffer.observations, buffer.state)
        actions, log_probs = self._exploration.draw(outputs[:, :-1])
        begun = self._clock.perf_counter()
        step = self._environments.step(actions)
        seconds = self._clock.perf_counter() - begun
        self._slow_steps = self._slow_steps + 1 if seconds > self._slow else 0
        if self._slow_steps == SLOW_STEPS:
            self._warn(seconds)
        buffer.state = after
        buffer.acted(actions, log_probs)
        buffer.rows[buffer.t + 1] = step.observations
        buffer.stepped(step.rewards, step.futureless, self._tracker.valid)
        finished = self._tracker.update(step.rewards, step.terminated, step.truncated, seconds)
        self._episodes += finished
        ended = bool(step.terminated[0] or step.truncated[0])
        if self._whole and buffer.full and not ended:
            buffer.grow()
        return ended

    def _warn(self, seconds: float) -> None:
        rollout = seconds * SLOW_SECONDS / self._slow
        self._slow = math.inf
        _log.warning(
            "a step of %d environments takes %.1f s, so a rollout takes %.0f s, and only then its frames count: "
            "environment.num_envs and algorithm.rollout_length could be smaller",
            *(self._environments.count, seconds, rollout),
        )

    def _complete(self) -> Played:
        episodes, self._episodes = self._episodes, []
        rollout, moments = self._buffer.finish()
        return Played(rollout, episodes, moments)
