"""An agent that acts and does not learn: a run's network in environments of its own; weights come from elsewhere."""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.registry import exploration
from common.rl.environments.base import Actions, MakeEnvironments, Observations
from common.rl.environments.make import make as make_environments
from common.rl.environments.names import draws_actions
from common.rl.models import build
from common.rl.rollout_buffer import masked_state
from common.settings.sections import Settings


class Agent:
    """Plays whole episodes with the environment's own rewards and fixed statistics; the caller must `close` it."""

    def __init__(
        self,
        settings: Settings,
        *,
        num_envs: int,
        seed: int,
        sampled: bool | None = None,
        render_mode: Literal["rgb_array"] | None = None,
        make: MakeEnvironments | None = None,
    ) -> None:
        """Make the network and `num_envs` environments; `seed` is 0 or more.

        sampled: draw actions as in training (value methods: with a small epsilon) instead of taking the best; None: as
            the settings say (evaluation.sampled).
        make: makes the environments; None: `common.rl.environments.make`.
        Raises EnvironmentMissingError if the environment is missing, and the errors of `common.rl.models.build`.
        """
        self.settings = settings
        section = msgspec.structs.replace(settings.environment, step_seconds=0.0)
        if make is None:
            self.environments = make_environments(section, num_envs=num_envs, seed=seed, render_mode=render_mode)
        else:
            self.environments = make(section, num_envs=num_envs, seed=seed)
        self.sampled = draws_actions(settings) if sampled is None else sampled
        try:
            self.model = build(settings, self.environments.observation, self.environments.action)
            rng = np.random.default_rng(seed)
            self._exploration = exploration(settings.algorithm, self.model.action, num_envs, rng, None)
            self._state = np.zeros((num_envs, self.model.state_size), np.float32)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Forget all states: the next observations begin an episode in every environment."""
        self._state = np.zeros_like(self._state)

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """Forget the states where `valid` (B,) is False: there the step was a dummy that began a new episode."""
        self._state = masked_state(self._state, valid)

    def act(self, observations: Observations) -> Actions:
        """Choose an action (B, *action.shape) for each of the observations (B, *shape)."""
        outputs, self._state = self.model.step(observations, self._state)
        numbers = outputs[:, :-1]
        actions: Actions = self._exploration.draw(numbers)[0] if self.sampled else self._exploration.best(numbers)
        return actions

    def close(self) -> None:
        self.environments.close()
