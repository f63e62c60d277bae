"""A trained agent from a run folder, in an environment made from the run's settings."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from actor.agent.agent import Agent
from common.errors import ConfigurationError
from common.rl.model import Model
from common.rl.moments import Moments
from common.run.folder import Checkpoint, CheckpointPaths, RunFolder
from common.run.runs import find_run
from common.settings.sections import Settings

Which = Literal["best", "newest"]


@dataclass(frozen=True)
class TrainedRun:
    settings: Settings
    checkpoint: Checkpoint


def open_run(run: str | os.PathLike[str], which: Which) -> TrainedRun:
    """Read a run folder ("last": the newest), or a checkpoint's folder or weights file, which ignores `which`.

    Raises ConfigurationError without a run or a checkpoint, DamagedCheckpointError if none is whole, and
    UnavailableError if the disk does not give them.
    """
    if which not in get_args(Which):
        raise ConfigurationError(f'checkpoint = {which!r}: must be "best" or "newest"')
    path = find_run(Path(run))
    place = path.parent if path.suffix == ".safetensors" else path
    if place.parent.name == "checkpoints" and not RunFolder(path).holds_run():
        return TrainedRun(RunFolder(place.parents[1]).settings(), CheckpointPaths(place).read())
    folder = RunFolder(path)
    settings = folder.settings()
    paths = folder.best() if which == "best" else folder.newest()
    if paths is None:
        raise ConfigurationError(
            f"{path}: the run has no checkpoint yet: `a3cd checkpoint LEARNER` writes one while it goes on, and "
            f"`a3cd train --resume --run-dir {path}` goes on with one that was cut off"
        )
    return TrainedRun(settings, paths.read())


class TrainedAgent(Agent):
    """An agent with the weights and statistics of a run's checkpoint; the caller must `close` it."""

    def __init__(
        self,
        run: TrainedRun,
        *,
        num_envs: int,
        seed: int,
        sampled: bool | None = None,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        """As `Agent`; raises ConfigurationError if the checkpoint's network is not that of the settings."""
        super().__init__(run.settings, num_envs=num_envs, seed=seed, sampled=sampled, render_mode=render_mode)
        try:
            load_weights(run, self.model)
        except BaseException:
            self.close()
            raise


def load_weights(run: TrainedRun, model: Model) -> None:
    """Put the run's weights and statistics into `model`; raises ConfigurationError if they are of another network."""
    checkpoint = run.checkpoint
    trained = checkpoint.state.get("model", model.hash)
    if trained != model.hash or checkpoint.weights.size != model.size:
        raise ConfigurationError(
            f"the checkpoint holds another network ({trained}, {checkpoint.weights.size} parameters) than the "
            f"settings give here ({model.hash}, {model.size}): {run.settings.environment.id} or a3cd differ from "
            "when it was trained"
        )
    model.vector[:] = checkpoint.weights
    moments = Moments.from_checkpoint(checkpoint.state, model.normalization.counted)
    model.load_background(checkpoint.optimizer)
    model.statistics[:] = model.normalization.extras(moments)
