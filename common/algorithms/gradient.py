"""From a rollout to a gradient, whatever the algorithm: outputs, the loss's derivative by them, and back."""

from __future__ import annotations

import torch
from torch import Tensor, autograd

from common.algorithms.registry import METHODS
from common.algorithms.rollout import Rollout
from common.algorithms.statistics import Statistics
from common.networks.model import Model
from common.settings.sections import Algorithm

_KEPT_CHUNKS = 16
"""Up to so many chunks the graph of the first pass is kept (0.2 MB a frame for conv nets); beyond, a second pass."""


def gradient(model: Model, rollout: Rollout, section: Algorithm) -> Statistics:
    """Set `model.flat.gradient` to the clipped gradient of the algorithm's loss over a rollout.

    The loss is a mean over the valid steps; without one the gradient is 0.
    """
    network, flat = model.network, model.flat
    chunks = torch.split(rollout.observations.flatten(0, 1), network.chunk)
    keep = len(chunks) <= _KEPT_CHUNKS
    with torch.set_grad_enabled(keep):
        parts = [network.outputs(chunk) for chunk in chunks]
    outputs = torch.cat([part.detach() for part in parts]).numpy()
    loss = METHODS[section.kind].loss(outputs, rollout, section, network.action)
    derivative = torch.from_numpy(loss.derivative)
    flat.zero()
    for chunk, part, part_derivative in zip(chunks, parts, torch.split(derivative, network.chunk), strict=True):
        autograd.backward(part if keep else network.outputs(chunk), part_derivative)
    return loss.statistics._replace(gradient_norm=clip_norm(flat.gradient, section.gradient_clip))


def clip_norm(vector: Tensor, largest: float) -> float:
    """Scale `vector` in place so that its L2 norm is at most `largest` (0: leave it); return the norm it had."""
    norm = float(torch.linalg.vector_norm(vector))
    if 0 < largest < norm:
        vector.mul_(largest / norm)
    return norm
