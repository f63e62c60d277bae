"""The weights and counters with which a learner begins: those of a checkpoint, or new ones."""

import msgspec

from common.errors import ConfigurationError
from common.rl.moments import Moments
from common.rl.networks.model import TorchModel
from common.run.folder import Checkpoint
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import TargetNetwork, Weights
from learner.run import RunSpec
from learner.run_stats import Counters


def weights_and_counters(spec: RunSpec, model: TorchModel, checkpoint: Checkpoint | None) -> tuple[Weights, Counters]:
    """Return the weights, which are the vector of `model`, and the counters of the run so far.

    Raises ConfigurationError for a checkpoint that was made with other settings.
    """
    settings = spec.settings
    optimizer = make_optimizer(settings.optimizer, model.flat.vector, settings.limits.frames)
    counters = Counters() if checkpoint is None else _counters(spec, checkpoint)
    optimizer.factor = counters.learning_rate_factor
    optimizer.anneal(counters.last_step_frames)
    target = None
    if model.target is not None:
        every = settings.algorithm.target_frames
        target = TargetNetwork(model.target.flat.vector, every, model.frames, counters.last_step_frames)
    weights = Weights(optimizer, model.extras, model.normalization, target=target)
    if checkpoint is not None:
        moments = Moments.from_checkpoint(checkpoint.state, spec.counted)
        try:
            model.load_background(checkpoint.optimizer)
            weights.restore(checkpoint.weights, checkpoint.optimizer, moments)
        except ConfigurationError as error:
            raise _unfit(spec, checkpoint, error) from error
    return weights, counters


def _counters(spec: RunSpec, checkpoint: Checkpoint) -> Counters:
    if checkpoint.state.get("model") != spec.model or checkpoint.weights.size != spec.parameters:
        raise ConfigurationError(
            f"{_named(spec, checkpoint)} holds another network than the settings describe; restore the settings it was "
            "made with"
        )
    try:
        return msgspec.convert(checkpoint.state.get("counters"), Counters)
    except msgspec.ValidationError as error:
        raise _unfit(spec, checkpoint, error) from error


def _unfit(spec: RunSpec, checkpoint: Checkpoint, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"{_named(spec, checkpoint)} does not fit: {error}; restore the settings it was made with"
    )


def _named(spec: RunSpec, checkpoint: Checkpoint) -> str:
    return f"{spec.run_dir}: the checkpoint of version {checkpoint.version}"
