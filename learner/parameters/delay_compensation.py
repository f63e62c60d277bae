"""Delay compensation: what a gradient of older weights would be on the newest, to first order.

g + lambda g*g*(w_now - w_then), elementwise: the Hessian of the Taylor expansion is replaced by the diagonal of the
gradient's outer product. See Zheng et al. 2017, https://arxiv.org/abs/1609.08326, the variant with constant lambda.
"""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from common.errors import ConfigurationError

MIB = 2**20


class Compensation:
    """Keeps the weights of the last versions, on the CPU, where gradients arrive."""

    def __init__(self, weights: Tensor, strength: float, history_mib: int) -> None:
        """`weights`, float32 (size,), are the first version; `strength` is lambda.

        Raises ConfigurationError when `history_mib` does not hold two versions: every lag would be out of reach.
        """
        most = history_mib * MIB // (4 * weights.numel())
        if most < 2:
            raise ConfigurationError(
                f"staleness.history_mib = {history_mib} does not hold two versions of {weights.numel():,} parameters; "
                f"needed are {-(-8 * weights.numel() // MIB)} or more"
            )
        self._strength = strength
        self._kept: deque[Tensor] = deque([weights.detach().to("cpu", copy=True)], maxlen=most)
        self._change = torch.empty_like(self._kept[0])

    @property
    def reach(self) -> int:
        """Largest lag that can be compensated."""
        return len(self._kept) - 1

    def stepped(self, weights: Tensor) -> None:
        """`weights` are the newest version now."""
        room = self._kept.popleft() if len(self._kept) == self._kept.maxlen else torch.empty_like(self._change)
        self._kept.append(room.copy_(weights.detach()))

    def apply(self, gradient: Tensor, lag: int) -> None:
        """Compensates `gradient` (size,) in place; `lag` is at most `reach`."""
        if lag:
            torch.sub(self._kept[-1], self._kept[-1 - lag], out=self._change)
            gradient.add_(self._change.mul_(gradient).mul_(gradient), alpha=self._strength)
