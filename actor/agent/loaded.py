"""A trained agent for other people's programs: it is given observations and gives actions, wherever they come from."""

from __future__ import annotations

import os
from pathlib import Path
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
from common.run.runs import find_run
from common.run.status import EvaluationStatus
from common.settings.sections import Settings


def load(
    run: str | os.PathLike[str],
    *,
    checkpoint: Which = "best",
    sampled: bool | None = None,
    seed: int = 0,
) -> LoadedAgent:
    """The agent of a run.

    run: a run folder; a checkpoint in one, or its weights.safetensors; or "last", the newest run in runs/.
    checkpoint: of a run folder, "best" (as `a3cd evaluate` takes) or "newest".
    sampled: draw actions as in training (of value methods: with a small epsilon) instead of taking the best; None: as
        the run's settings say (evaluation.sampled: in ALE games drawn, else the best).
    seed: of what is drawn, 0 or more.

    Raises ConfigurationError (no run, no checkpoint, a package is missing), DamagedCheckpointError (none is whole), and
    UnavailableError (the disk does not give it); all are A3cdError.
    """
    if checkpoint not in ("best", "newest"):
        raise ConfigurationError(f'checkpoint = {checkpoint!r}: must be "best" or "newest"')
    if seed < 0:
        raise ConfigurationError(f"seed = {seed}: must be 0 or more")
    return LoadedAgent(open_run(find_run(Path(run)), checkpoint), sampled=sampled, seed=seed)


class LoadedAgent:
    """Acts, and does not learn. Use one for each thread."""

    def __init__(self, run: TrainedRun, *, sampled: bool | None = None, seed: int = 0) -> None:
        """As `load`; the environment is made once, for its spaces."""
        self.settings: Settings = run.settings
        """All settings of the run."""
        self.version: int = run.checkpoint.version
        """Of the weights: optimizer steps that made them."""
        self.evaluation: EvaluationStatus | None = run.checkpoint.evaluation
        """Of these weights during training, if they were the best by it."""
        self.sampled: bool = draws_actions(run.settings) if sampled is None else sampled
        """Whether actions are drawn; may be changed at any time."""
        self._interface = interface(run.settings.environment)
        self._model = build(run.settings, self._interface.observation, self._interface.actions.spec, own_process=False)
        load_weights(run, self._model)
        self._rng = np.random.default_rng(seed)
        self._count = 0
        """Episodes at once; 0: none has begun."""
        self._state = np.zeros((0, self._model.state_size), np.float32)
        self._stacks: NDArray[Any] = np.zeros(0)
        self._fresh = np.ones(0, np.bool_)
        """(B,): where the next observation is the first of its episode."""

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Of one observation as `act` takes it: the environment's own, without stacking.

        Where the agent sees pictures (environment.observation = "frames"), they are grey, (1, size, size) of uint8;
        size: environment.frame_size.
        """
        return self._interface.space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Of one action as `act` gives it: the environment's own."""
        return self._interface.actions.space

    @property
    def remembers(self) -> bool:
        """Whether actions depend on earlier observations of the episode: then `reset` is to be called between two."""
        return self._interface.stack is not None or self._model.state_size > 0

    def act(self, observation: Any, action_mask: Any = None) -> Any:
        """Choose an action for one observation, or for a batch of them.

        observation: as the environment gives it, of `observation_space`: an array of its shape, a number of Discrete, a
            dict of Dict. A batch is an array with one axis more, in front, (B, *shape); of Dict and Tuple a list.
            Frames are stacked, and observations normalised, here.
        action_mask: where the run has environment.action_masks, `info["action_mask"]` of that observation, (n,) for n
            actions; for a batch (B, n). What it forbids is not chosen.
        Returns the action as the environment takes it, of `action_space`: a numpy integer of Discrete, else an array of
        its shape; for a batch an array (B, *shape).

        A batch is of B episodes side by side, the same ones from call to call, if the agent `remembers`.
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
        """What the network is given for the frames `rows`."""
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
        """The next observation begins an episode; agents that do not `remember` need no reset.

        ended: (B,) bool, those of the batch's episodes that ended; None: all, and the next batch may have another size.
        Raises ObservationError where `ended` has another shape than the batch.
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
        """The environment that the run was trained in, as a `gymnasium.Env` whose observations `act` takes.

        With the run's options, repeated actions, time limit and pictures; rewards are the environment's own. `seed`: of
        its episodes, on which no run is trained. The caller closes it.
        Raises ConfigurationError where it cannot be made.
        """
        return SingleEnvironment(self.settings.environment, self._interface, seed=seed, render_mode=render_mode)

    def __repr__(self) -> str:
        how = "drawn" if self.sampled else "best"
        return f"<agent of {self.settings.environment.id}, weights of version {self.version}, {how} actions>"
