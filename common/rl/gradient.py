"""From a rollout to a gradient, for every algorithm: outputs, the loss's derivative by them, and back-propagation."""

from typing import Any

import numpy as np

from common.rl.algorithms.losses import Floats
from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.model import Model
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def gradient(
    model: Model, rollout: Rollout, section: Algorithm, weights: Floats | None = None, *, moved: Any = None
) -> Statistics:
    """Set `model.gradient` to the clipped gradient of the algorithm's loss over a rollout.

    The loss is a mean over the valid steps; without one the gradient is 0. The network may be on another device than
    the rollout. weights: (B,), of mean 1: those of the environments in the loss. moved: as of `Model.outputs`.
    """
    target = None if model.target is None else model.target.outputs(rollout, moved)
    loss = METHODS[section.kind].loss(section, model.forward(rollout, moved), rollout, model.action, target)
    if weights is not None:
        loss.derivative.reshape(-1, len(weights), loss.derivative.shape[1])[...] *= weights[:, np.newaxis]
    model.backward(loss.derivative)
    return loss.statistics._replace(gradient_norm=model.clip_gradient(section.max_grad_norm))
