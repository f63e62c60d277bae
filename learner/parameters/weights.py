"""The weights of a run, and everything that changes with them."""

from __future__ import annotations

import torch
from torch import Tensor

from common.rl.moments import Moments, Plain
from common.rl.networks.normalization import Normalization
from common.rl.rewards import UNCHANGED
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.target_network import TARGET, TargetNetwork


class Weights:
    """One flat float32 vector on the optimizer's device, its optimizer, target network and running statistics."""

    def __init__(
        self,
        optimizer: FlatOptimizer,
        extras: Tensor,
        normalization: Normalization = UNCHANGED,
        *,
        saved: Moments | None = None,
        target: TargetNetwork | None = None,
    ) -> None:
        """`extras` are the model's, on the CPU; running statistics, which go on from `saved`, are their first part."""
        self.vector = optimizer.vector
        self.optimizer = optimizer
        self.extras = extras
        self.target = target
        self._normalization = normalization
        self._moments = Moments.empty(normalization.counted) if saved is None else saved
        self.end_version()

    def merge(self, more: Moments) -> None:
        """Adds the moments of one contribution; the extras change with the next `end_version`."""
        self._moments = self._moments.merged(more)

    def step(self, gradient: Tensor, *, scale: float, frames: int) -> None:
        """One optimizer step; the arguments as for `FlatOptimizer.step`."""
        self.optimizer.step(gradient, scale=scale, frames=frames)
        if self.target is not None:
            self.target.stepped(self.vector, frames)

    def end_version(self) -> None:
        """The optimizer steps of a version are taken; the running statistics change between two versions only."""
        self.extras[: self._normalization.size].copy_(self._normalization.extras(self._moments))

    def vectors(self) -> list[Tensor]:
        """As they travel, on the CPU: the weights, and behind them the target network's if there is one."""
        vectors = [self.vector] if self.target is None else [self.vector, self.target.vector]
        return [vector.detach().cpu() for vector in vectors]

    @property
    def finite(self) -> bool:
        """False once a weight is NaN or infinite."""
        return bool(torch.isfinite(self.vector).all())

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps besides the vector: the optimizer's statistics and the target network."""
        return self.optimizer.state() | ({} if self.target is None else {TARGET: self.target.vector})

    @property
    def moments(self) -> Plain | None:
        """Of the running statistics, for a checkpoint; None while nothing is counted."""
        return self._moments.plain() if self._moments.count else None
