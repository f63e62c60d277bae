"""From a rollout to a gradient, for every algorithm: outputs, the loss's derivative, and back-propagation."""

from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.arrays import Array
from common.rl.model import Model
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm


def gradient(model: Model, rollout: Rollout, section: Algorithm, weights: Array | None = None) -> Statistics:
    """Set `model.gradient` to the clipped gradient of the algorithm's loss over a rollout.

    The loss is a mean over the valid steps; if there are none, the gradient is 0. weights: (B,) with mean 1, the weight
    of each environment in the loss. If the rollout is on the network's device, everything stays there, the statistics
    too, and the host does not wait for the device.
    """
    target = None if model.target is None else model.target.outputs(rollout)
    loss = METHODS[section.kind].loss(section, model.forward(rollout), rollout, model.action, target)
    if weights is not None:
        loss.derivative.reshape(-1, len(weights), loss.derivative.shape[1])[...] *= weights[:, None]
    model.backward(loss.derivative)
    return loss.statistics._replace(gradient_norm=model.clip_gradient(section.max_grad_norm))
