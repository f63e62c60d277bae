"""From a rollout to a gradient, for every algorithm: outputs, the loss's derivative by them, and back-propagation."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, autograd

from common.rl.algorithms.losses import Floats
from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.model import Model
from common.rl.networks.heads import PolicyValue
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

_KEPT_CHUNKS = 16
"""Up to this many chunks the graph of the first pass is kept (0.2 MB a frame for conv nets); beyond, a second pass."""


def gradient(
    model: Model,
    rollout: Rollout,
    section: Algorithm,
    weights: Floats | None = None,
    *,
    observations: Tensor | None = None,
) -> Statistics:
    """Set `model.flat.gradient` to the clipped gradient of the algorithm's loss over a rollout.

    The loss is a mean over the valid steps; without one the gradient is 0. The network may be on another device than
    the rollout. weights: (B,), of mean 1: those of the environments in the loss. observations: (T + 1, B, *shape), the
    rollout's where they are on the network's device already.
    """
    network, flat = model.network, model.flat
    device = flat.vector.device
    # A CPU computes a chunk at a time, which its cache holds; other devices as much at once as keeps its graph.
    size = network.chunk if device.type == "cpu" else _KEPT_CHUNKS * network.chunk
    if observations is None:
        observations = torch.from_numpy(rollout.observations).to(device, non_blocking=True)
    chunks = torch.split(observations.flatten(0, 1), size)
    keep = len(chunks) * size <= _KEPT_CHUNKS * network.chunk
    with torch.set_grad_enabled(keep):
        parts = [network.features(chunk) for chunk in chunks]
    features = torch.cat([part.detach() for part in parts])
    outputs = _unroll(network, features, rollout)
    target = None if model.target is None else _outputs(model.target.network, chunks, rollout)
    loss = METHODS[section.kind].loss(section, outputs.detach().cpu().numpy(), rollout, network.action, target)
    if weights is not None:
        loss.derivative.reshape(-1, len(weights), loss.derivative.shape[1])[...] *= weights[:, np.newaxis]
    derivative = torch.from_numpy(loss.derivative).to(device)
    flat.zero()
    if network.state_size:
        autograd.backward(outputs, derivative)
        assert features.grad is not None
        derivative = features.grad
    for chunk, part, part_derivative in zip(chunks, parts, torch.split(derivative, size), strict=True):
        autograd.backward(part if keep else network.features(chunk), part_derivative)
    return loss.statistics._replace(gradient_norm=clip_norm(flat.gradient, section.max_grad_norm))


def _unroll(network: PolicyValue, features: Tensor, rollout: Rollout) -> Tensor:
    """The outputs; of a recurrent network with a graph that ends in `features.grad`."""
    if not network.state_size:
        return features
    if rollout.state is None:
        raise ValueError("rollout: a recurrent network needs the state before its first observation")
    device = features.device
    state, valid = (torch.from_numpy(part).to(device) for part in (rollout.state, rollout.valid))
    return network.unroll(features.requires_grad_(), state, valid)


@torch.no_grad()
def _outputs(network: PolicyValue, chunks: Sequence[Tensor], rollout: Rollout) -> Floats:
    features = torch.cat([network.features(chunk) for chunk in chunks])
    return _unroll(network, features, rollout).cpu().numpy()


def clip_norm(vector: Tensor, max_norm: float) -> float:
    """Scale `vector` in place so that its L2 norm is at most `max_norm` (0: no limit); return the norm it had."""
    norm = float(torch.linalg.vector_norm(vector))
    if 0 < max_norm < norm:
        vector.mul_(max_norm / norm)
    return norm
