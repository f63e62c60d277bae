"""A trained agent for use in other programs: it chooses an action for an observation from any source."""

from __future__ import annotations

import os
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from actor.agent.trained_agent import TrainedRun, Which, load_weights, open_run
from common.errors import ConfigurationError, ObservationError
from common.rl.algorithms.registry import exploration
from common.rl.environments.interface import interface
from common.rl.environments.names import draws_actions
from common.rl.environments.single import SingleEnvironment
from common.rl.models import build
from common.rl.rollout_buffer import masked_state
from common.run.status import EvaluationStatus
from common.settings.sections import Settings


def load(
    run: str | os.PathLike[str],
    *,
    checkpoint: Which = "best",
    sampled: bool | None = None,
    seed: int = 0,
) -> LoadedAgent:
    """Load the agent of a run.

    run: a run folder; a checkpoint in one, or its weights.safetensors; or "last", the newest run in runs/.
    checkpoint: which one of a run folder: "best" (as `a3cd evaluate` takes) or "newest".
    sampled: draw actions as in training (value methods: with a small epsilon) instead of taking the best; None: as the
        run's settings say (evaluation.sampled: drawn in ALE games, else the best).
    seed: seed of the draws, 0 or more.

    Raises ConfigurationError (no run, no checkpoint, a package is missing), DamagedCheckpointError (no checkpoint is
    intact), and UnavailableError (the disk cannot be read); all are A3cdError.
    """
    if seed < 0:
        raise ConfigurationError(f"seed = {seed}: must be 0 or more")
    return LoadedAgent(open_run(run, checkpoint), sampled=sampled, seed=seed)


class LoadedAgent:
    """An agent that acts and does not learn. Use one per thread."""

    def __init__(self, run: TrainedRun, *, sampled: bool | None = None, seed: int = 0) -> None:
        """Arguments are as in `load`; the environment is made once, to learn its spaces."""
        self.settings: Settings = run.settings
        """All settings of the run."""
        self.version: int = run.checkpoint.version
        """Version of the weights: the number of optimizer steps that made them."""
        self.evaluation: EvaluationStatus | None = run.checkpoint.evaluation
        """The evaluation of these weights during training, if it made them the best."""
        self.sampled: bool = draws_actions(run.settings) if sampled is None else sampled
        """Whether actions are drawn; may be changed at any time."""
        self._interface = interface(run.settings.environment)
        self._model = build(run.settings, self._interface.observation, self._interface.actions.spec, own_process=False)
        load_weights(run, self._model)
        self._rng = np.random.default_rng(seed)
        self._count = 0
        """Episodes in progress side by side; 0: none has begun."""
        self._state = np.zeros((0, self._model.state_size), np.float32)
        self._stacks: NDArray[Any] = np.zeros(0)
        self._fresh = np.ones(0, np.bool_)
        """(B,): where the next observation is the first of its episode."""

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of one observation for `act`: the environment's own, without stacking.

        If the agent sees pictures (environment.observation = "frames"), they are grey, (1, size, size) of uint8; size:
        environment.frame_size.
        """
        return self._interface.space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of one action from `act`: the environment's own."""
        return self._interface.actions.space

    @property
    def remembers(self) -> bool:
        """Whether actions depend on earlier observations of the episode; if so, call `reset` between episodes."""
        return self._interface.stack is not None or self._model.state_size > 0

    def act(self, observation: Any, action_mask: Any = None) -> Any:
        """Choose an action for one observation, or for a batch of them.

        observation: as the environment gives it, from `observation_space`: an array of its shape, a number for
            Discrete, a dict for Dict. A batch is an array with one more axis in front, (B, *shape); for Dict and Tuple
            a list. `act` stacks frames and normalises observations itself.
        action_mask: where the run has environment.action_masks, `info["action_mask"]` of that observation, (n,) for n
            actions; for a batch (B, n). Actions that it forbids are not chosen.
        Returns the action as the environment takes it, from `action_space`: a numpy integer for Discrete, else an array
        of its shape; for a batch an array (B, *shape).

        If the agent `remembers`, a batch is of B episodes side by side, the same ones from call to call.
        Raises ObservationError, which is a ValueError, for an observation of another shape or type, one that is not
        finite, a batch of another size in the middle of episodes, and a mask that is missing or does not fit.
        """
        rows, one = self._interface.rows(observation)
        rows = self._interface.masked(rows, action_mask, one=one)
        if self.remembers:
            rows = self._remembered(rows)
        outputs, self._state = self._model.step(rows, self._state)
        numbers = outputs[:, :-1]
        choices = exploration(self.settings.algorithm, self._model.action, len(rows), self._rng, None)
        own = self._interface.actions.own(choices.draw(numbers)[0] if self.sampled else choices.best(numbers))
        return own[0] if one else own

    def _remembered(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the network's input for the new observations `rows`: stacked, if frames are stacked."""
        if not self._count:
            self._count = len(rows)
            self._state = np.zeros((self._count, self._model.state_size), np.float32)
            self._stacks = np.zeros((self._count, *self._interface.observation.shape), rows.dtype)
            self._fresh = np.ones(self._count, np.bool_)
        if len(rows) != self._count:
            raise ObservationError(
                f"a batch of {len(rows)}, where {self._count} episodes are in progress that the agent remembers: call "
                "reset() before another batch"
            )
        if self._interface.stack is not None:
            self._interface.stack.push(self._stacks, self._stacks, rows)
            self._interface.stack.begin(self._stacks, rows, self._fresh)
            rows = self._stacks
        self._fresh[:] = False
        return rows

    def reset(self, ended: NDArray[np.bool_] | None = None) -> None:
        """Declare that the next observation begins an episode; agents that do not `remember` need no reset.

        ended: (B,) bool, the batch's episodes that ended; None: all, and the next batch may have another size.
        Raises ObservationError if the shape of `ended` is not that of the batch.
        """
        if ended is None:
            self._count = 0
        elif self._count:
            ended = np.asarray(ended, np.bool_)
            if ended.shape != (self._count,):
                raise ObservationError(f"ended has shape {ended.shape}, the batch {self._count} episodes")
            self._state = masked_state(self._state, ~ended)
            self._fresh |= ended

    def environment(self, *, seed: int = 0, render_mode: Literal["rgb_array"] | None = None) -> SingleEnvironment:
        """Make the environment that the run was trained in, as a `gymnasium.Env` whose observations `act` takes.

        It has the run's options, repeated actions, time limit and pictures; rewards are the environment's own. `seed`:
        of its episodes, on which no run is trained. The caller must close it.
        Raises ConfigurationError if it cannot be made.
        """
        return SingleEnvironment(self.settings.environment, self._interface, seed=seed, render_mode=render_mode)

    def __repr__(self) -> str:
        how = "drawn" if self.sampled else "best"
        return f"<agent of {self.settings.environment.id}, weights of version {self.version}, {how} actions>"
