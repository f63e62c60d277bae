"""A trained agent from a run folder, in an environment made from the run's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.algorithms.registry import exploration
from common.rl.environments.base import Actions, Observations
from common.rl.environments.make import make
from common.rl.environments.spaces import describe
from common.rl.model import build
from common.rl.moments import Moments
from common.rl.networks.recurrent_state import RecurrentState
from common.run.folder import Checkpoint, RunFolder
from common.settings.sections import Settings

Which = Literal["best", "newest"]


@dataclass(frozen=True)
class TrainedRun:
    """What a run folder says about an agent."""

    settings: Settings
    checkpoint: Checkpoint


def open_run(path: Path, which: Which) -> TrainedRun:
    """Read a run folder; raises ConfigurationError if it holds no run, or the run no checkpoint that reads whole."""
    folder = RunFolder(path)
    settings = folder.settings()
    paths = folder.best() if which == "best" else folder.newest()
    if paths is None:
        raise ConfigurationError(f"{path}: the run has no checkpoint yet")
    return TrainedRun(settings, paths.read())


class TrainedAgent:
    """The network with a run's weights, and environments to act in; `close` must be called."""

    def __init__(
        self, run: TrainedRun, *, copies: int, seed: int, sampled: bool, render_mode: Literal["rgb_array"] | None = None
    ) -> None:
        """Take the best actions, or `sampled` ones: as in training, values with a small epsilon. `seed`: 0 or more.

        Raises EnvironmentMissingError where the environment is missing, ConfigurationError if the weights are not of
        the network that the settings describe.
        """
        # More threads do not pay for networks so small, and are ruinous beside a training on the same cores.
        torch.set_num_threads(1)
        section = msgspec.structs.replace(run.settings.environment, step_seconds=0.0)
        self.environments = make(section, num_envs=copies, seed=seed, render_mode=render_mode)
        self._sampled = sampled
        try:
            observation = describe(self.environments.observation_space)
            model = build(run.settings, observation, self.environments.action)
            self._model, flat = model, model.flat
            rng, algorithm = np.random.default_rng(seed), run.settings.algorithm
            self._exploration = exploration(algorithm, model.network.action, copies, rng, None)
            trained = run.checkpoint.state.get("model", flat.hash)
            if trained != flat.hash or run.checkpoint.weights.size != flat.size:
                raise ConfigurationError(
                    f"the checkpoint holds another network ({trained}, {run.checkpoint.weights.size} parameters) than "
                    f"the settings give here ({flat.hash}, {flat.size}): {section.id} or a3cd differ from when it was "
                    "trained"
                )
            self._memory = RecurrentState(copies, model.network.state_size)
            flat.vector.copy_(torch.from_numpy(run.checkpoint.weights))
            moments = Moments.from_checkpoint(run.checkpoint.state, model.normalization.counted)
            model.statistics.copy_(model.normalization.extras(moments))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """The next observations begin an episode in every copy, as after `environments.reset`."""
        self._memory.clear()

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """To be called after a step: where `valid` (B,) is False it was a dummy, and another episode begins."""
        self._memory.keep(valid)

    def act(self, observations: Observations) -> Actions:
        """Choose an action (B, *action.shape) for each of the observations (B, *shape)."""
        outputs, self._memory.value = self._model.network.step(torch.from_numpy(observations), self._memory.value)
        numbers = outputs.numpy()[:, :-1]
        return self._exploration.draw(numbers)[0] if self._sampled else self._exploration.best(numbers)

    def close(self) -> None:
        """Close the environments."""
        self.environments.close()
