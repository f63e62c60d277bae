"""Array functions for losses and distributions on a network's device; none of them waits for the device."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from common.rl.arrays import Arrays


class TensorArrays(Arrays):
    exp = staticmethod(torch.exp)
    log = staticmethod(torch.log)
    tanh = staticmethod(torch.tanh)
    smaller = staticmethod(torch.minimum)
    zeros_like = staticmethod(torch.zeros_like)
    copy = staticmethod(torch.clone)
    number = staticmethod(torch.Tensor.detach)

    def softplus(self, x: Tensor) -> Tensor:
        return softplus(x)

    def log_softmax(self, x: Tensor) -> Tensor:
        return torch.log_softmax(x, dim=1)

    def largest(self, x: Tensor) -> Tensor:
        return x.amax(dim=1)

    def clipped(self, x: Tensor, low: float | None, high: float) -> Tensor:
        return torch.clamp(x, low, high)

    def kept(self, where: Tensor, x: Tensor | float) -> Tensor:
        return torch.where(where, x, 0.0)

    def concatenated(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        return torch.cat(list(parts), dim=axis)

    def columns(self, x: Tensor, chosen: Sequence[int]) -> Tensor:
        # An index would be a tensor that must be copied to the device.
        return x if len(chosen) == x.shape[1] else torch.stack([x[:, column] for column in chosen], dim=1)

    def pick(self, x: Tensor, columns: Tensor) -> Tensor:
        return x.gather(1, columns.unsqueeze(1)).squeeze(1)

    def add_at(self, x: Tensor, columns: Tensor, values: Tensor) -> None:
        x.scatter_add_(1, columns.unsqueeze(1), values.unsqueeze(1))

    def mean_weights(self, counted: Tensor) -> Tensor:
        ones = counted.flatten().float()
        return ones / ones.sum().clamp_(min=1)

    def accumulated(self, x: Tensor, decay: Tensor) -> Tensor:
        """Take log2(T) passes over all steps (Hillis and Steele 1986): a device prefers few large operations."""
        y, d, reach = x.clone(), decay.clone(), 1
        while reach < len(y):
            y[:-reach] += d[:-reach] * y[reach:]
            d[:-reach] *= d[reach:].clone()
            reach *= 2
        return y


TENSORS = TensorArrays()
