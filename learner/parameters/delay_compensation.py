"""Delay compensation: corrects a gradient of older weights towards the newest ones, to first order.

It is g + lambda g*g*(w_now - w_then), elementwise: the Hessian of the Taylor expansion is replaced by the diagonal of
the gradient's outer product. Zheng et al. 2017, https://arxiv.org/abs/1609.08326, the variant with constant lambda.
"""

from collections import deque

import torch
from torch import Tensor

from common.errors import ConfigurationError

MIB = 2**20


class DelayCompensation:
    """Keeps the weights of the last versions on the CPU, where gradients arrive."""

    def __init__(self, weights: Tensor, strength: float, history_mib: int) -> None:
        """`weights`: the first version, float32 (size,); `strength`: lambda.

        Raises ConfigurationError if `history_mib` does not hold two versions: no lag could be compensated.
        """
        most = history_mib * MIB // (4 * weights.numel())
        if most < 2:
            raise ConfigurationError(
                f"staleness.history_mib = {history_mib} does not hold two versions of {weights.numel():,} parameters; "
                f"needed are {-(-8 * weights.numel() // MIB)} or more"
            )
        self._strength = strength
        self._history: deque[Tensor] = deque([weights.detach().to("cpu", copy=True)], maxlen=most)
        self._change = torch.empty_like(self._history[0])

    @property
    def reach(self) -> int:
        """Largest lag that can be compensated."""
        return len(self._history) - 1

    def begin(self, weights: Tensor) -> None:
        """Begin anew with `weights`, to which no step has led from those before; forget the history."""
        self._history.clear()
        self._history.append(weights.detach().to("cpu", copy=True))

    def stepped(self, weights: Tensor) -> None:
        """Add `weights` as the newest version."""
        full = len(self._history) == self._history.maxlen
        room = self._history.popleft() if full else torch.empty_like(self._change)
        self._history.append(room.copy_(weights.detach()))

    def apply(self, gradient: Tensor, lag: int) -> None:
        """Compensate `gradient` (size,) in place; `lag` must be at most `reach`."""
        if lag:
            torch.sub(self._history[-1], self._history[-1 - lag], out=self._change)
            gradient.add_(self._change.mul_(gradient).mul_(gradient), alpha=self._strength)
