"""A trained agent from a run folder, in an environment made from the run's settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.algorithms.registry import exploration
from common.rl.environments.base import Actions, Observations
from common.rl.environments.make import make
from common.rl.models import build
from common.rl.moments import Moments
from common.rl.rollout_buffer import masked_state
from common.run.folder import Checkpoint, RunFolder
from common.settings.sections import Settings

Which = Literal["best", "newest"]


@dataclass(frozen=True)
class TrainedRun:
    settings: Settings
    checkpoint: Checkpoint


def open_run(path: Path, which: Which) -> TrainedRun:
    """Read a run folder.

    Raises ConfigurationError without a run or a checkpoint, DamagedCheckpointError if none is whole, and
    UnavailableError if the disk does not give them.
    """
    folder = RunFolder(path)
    settings = folder.settings()
    paths = folder.best() if which == "best" else folder.newest()
    if paths is None:
        raise ConfigurationError(f"{path}: the run has no checkpoint yet")
    return TrainedRun(settings, paths.read())


class TrainedAgent:
    """A network with a run's weights, and environments that it plays in; the caller must `close` it."""

    def __init__(
        self,
        run: TrainedRun,
        *,
        num_envs: int,
        seed: int,
        sampled: bool,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        """Make the network and `num_envs` environments; `seed` is 0 or more.

        sampled: draw actions as in training (value methods: with a small epsilon) instead of taking the best.
        Raises EnvironmentMissingError where the environment is missing, ConfigurationError if the checkpoint holds
        another network than the settings describe.
        """
        self.settings = run.settings
        section = msgspec.structs.replace(run.settings.environment, step_seconds=0.0)
        self.environments = make(section, num_envs=num_envs, seed=seed, render_mode=render_mode)
        self._sampled = sampled
        try:
            self._model = model = build(run.settings, self.environments.observation, self.environments.action)
            rng = np.random.default_rng(seed)
            self._exploration = exploration(run.settings.algorithm, model.action, num_envs, rng, None)
            trained = run.checkpoint.state.get("model", model.hash)
            if trained != model.hash or run.checkpoint.weights.size != model.size:
                raise ConfigurationError(
                    f"the checkpoint holds another network ({trained}, {run.checkpoint.weights.size} parameters) than "
                    f"the settings give here ({model.hash}, {model.size}): {section.id} or a3cd differ from when it "
                    "was trained"
                )
            self._state = np.zeros((num_envs, model.state_size), np.float32)
            model.vector[:] = run.checkpoint.weights
            moments = Moments.from_checkpoint(run.checkpoint.state, model.normalization.counted)
            model.statistics[:] = model.normalization.extras(moments)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Forget everything: the next observations begin an episode in every environment."""
        self._state = np.zeros_like(self._state)

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """Forget the environments where `valid` (B,) is False: their step was a dummy that began a new episode."""
        self._state = masked_state(self._state, valid)

    def act(self, observations: Observations) -> Actions:
        """Choose an action (B, *action.shape) for each of the observations (B, *shape)."""
        outputs, self._state = self._model.step(observations, self._state)
        numbers = outputs[:, :-1]
        actions: Actions = self._exploration.draw(numbers)[0] if self._sampled else self._exploration.best(numbers)
        return actions

    def close(self) -> None:
        self.environments.close()
