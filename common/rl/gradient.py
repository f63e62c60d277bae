"""From a rollout to a gradient, whatever the algorithm: outputs, the loss's derivative by them, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, autograd

from common.rl.algorithms.losses import Floats
from common.rl.algorithms.registry import METHODS, ValueMethod
from common.rl.algorithms.statistics import Statistics
from common.rl.model import Model
from common.rl.networks.heads import PolicyValue
from common.rl.networks.recurrent import Recurrent
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm

_KEPT_CHUNKS = 16
"""Up to so many chunks the graph of the first pass is kept (0.2 MB a frame for conv nets); beyond, a second pass."""


def gradient(model: Model, rollout: Rollout, section: Algorithm, weights: Floats | None = None) -> Statistics:
    """Set `model.flat.gradient` to the clipped gradient of the algorithm's loss over a rollout.

    The loss is a mean over the valid steps; without one the gradient is 0. With `weights` (B,), of mean 1, the steps of
    each environment count so much. The network may be on another device than the rollout.
    """
    network, flat = model.network, model.flat
    device = flat.vector.device
    # A chunk is what a CPU's cache holds; another device takes at once as many as have their graph kept.
    size = network.chunk if device.type == "cpu" else _KEPT_CHUNKS * network.chunk
    chunks = torch.split(rollout.observations.flatten(0, 1).to(device, non_blocking=True), size)
    keep = len(chunks) * size <= _KEPT_CHUNKS * network.chunk
    recurrent = network if isinstance(network, Recurrent) else None
    compute = network.outputs if recurrent is None else recurrent.features
    with torch.set_grad_enabled(keep):
        parts = [compute(chunk) for chunk in chunks]
    whole = torch.cat([part.detach() for part in parts])
    outputs = whole if recurrent is None else _unroll(recurrent, whole, rollout)
    method, computed = METHODS[section.kind], outputs.detach().cpu().numpy()
    if isinstance(method, ValueMethod):
        assert model.target is not None
        loss = method.loss(computed, rollout, section, _outputs(model.target.network, chunks, rollout))
    else:
        loss = method.loss(computed, rollout, section, network.action)
    if weights is not None:
        loss.derivative.reshape(-1, len(weights), loss.derivative.shape[1])[...] *= weights[:, np.newaxis]
    derivative = torch.from_numpy(loss.derivative).to(device)
    flat.zero()
    if recurrent is not None:
        autograd.backward(outputs, derivative)
        assert whole.grad is not None
        derivative = whole.grad
    for chunk, part, part_derivative in zip(chunks, parts, torch.split(derivative, size), strict=True):
        autograd.backward(part if keep else compute(chunk), part_derivative)
    return loss.statistics._replace(gradient_norm=clip_norm(flat.gradient, section.max_grad_norm))


def _unroll(network: Recurrent, features: Tensor, rollout: Rollout) -> Tensor:
    """The outputs; the way back through time ends in `features.grad`, which goes through the trunk in chunks."""
    if rollout.state is None:
        raise ValueError("rollout: a recurrent network needs the state before its first observation")
    device = features.device
    return network.unroll(features.requires_grad_(), rollout.state.to(device), rollout.valid.to(device))


@torch.no_grad()
def _outputs(network: PolicyValue, chunks: Sequence[Tensor], rollout: Rollout) -> Floats:
    if isinstance(network, Recurrent):
        outputs = _unroll(network, torch.cat([network.features(chunk) for chunk in chunks]), rollout)
    else:
        outputs = torch.cat([network.outputs(chunk) for chunk in chunks])
    return outputs.cpu().numpy()


def clip_norm(vector: Tensor, largest: float) -> float:
    """Scale `vector` in place so that its L2 norm is at most `largest` (0: leave it); return the norm it had."""
    norm = float(torch.linalg.vector_norm(vector))
    if 0 < largest < norm:
        vector.mul_(largest / norm)
    return norm
