"""The weights of a run, and everything that changes with them."""

from __future__ import annotations

import torch
from torch import Tensor

from common.rl.moments import Plain
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.running_stats import RunningStats
from learner.parameters.target_network import TARGET, TargetNetwork


class Weights:
    """One flat float32 vector on the optimizer's device, its optimizer, target network and running statistics."""

    def __init__(
        self, optimizer: FlatOptimizer, extras: Tensor, running: RunningStats, target: TargetNetwork | None = None
    ) -> None:
        """`extras` are the model's, on the CPU; `running` and `target` write into them."""
        self.vector = optimizer.vector
        self.optimizer = optimizer
        self.extras = extras
        self.running = running
        self.target = target

    def step(self, gradient: Tensor, *, scale: float, frames: int) -> None:
        """One optimizer step; the arguments as for `FlatOptimizer.step`."""
        self.optimizer.step(gradient, scale=scale, frames=frames)
        if self.target is not None:
            self.target.stepped(self.vector, frames)

    def end_version(self) -> None:
        """The optimizer steps of a version are taken; the running statistics change between two versions only."""
        self.running.refresh()

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
        return self.running.saved()
