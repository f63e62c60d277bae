"""The learner's sum and optimizer, and a plain replay of them from what was added."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from common.rl.normalization import Normalization
from common.run.folder import Checkpoint
from common.settings.sections import Settings
from common.wire.codecs.registry import PackedCodec, make
from common.wire.frames import Buffer
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.step_result import StepResult
from learner.parameters.weights import Weights

SIZE = 8
"""Number of parameters."""
MAX_NORM = 1.0
"""Largest norm of a rollout's gradient."""
CLOSE = 1e-3
"""Tolerance for weights: a tenth of what one gradient more or less changes."""
Vector = np.ndarray
Key = tuple[str, int]
"""An actor's incarnation and its gradient's sequence number."""


class Violation(Exception):
    """An invariant was violated."""


class Added(NamedTuple):
    body: bytes
    codec: str
    weight: float
    count: int
    key: Key


class Step(NamedTuple):
    added: list[Added]
    scale: float
    frames: int


def fresh(settings: Settings) -> FlatOptimizer:
    """Make the optimizer of untrained weights."""
    return make_optimizer(settings.optimizer, torch.linspace(-1, 1, SIZE), 0)


class Replay:
    """All steps of a run from its beginning, from the bodies alone; goes back when a learner resumes a checkpoint."""

    def __init__(self, settings: Settings) -> None:
        self.history: list[Step] = []
        """Steps by version."""
        self._settings = settings
        self._optimizer = fresh(settings)
        self._codecs: dict[str, PackedCodec] = {}

    @property
    def vector(self) -> Vector:
        return self._optimizer.vector.numpy()

    def rewind(self, version: int) -> None:
        """Go back to the version of a checkpoint."""
        if version == len(self.history):
            return
        del self.history[version:]
        self._optimizer = fresh(self._settings)
        for step in self.history:
            self._take(step)

    def step(self, step: Step) -> None:
        self.history.append(step)
        self._take(step)

    def decoded(self, body: bytes, codec: str) -> Vector:
        packed = self._codecs.setdefault(codec, make(codec, SIZE))
        vector = np.empty(SIZE, np.float32)
        packed.decode(body, vector)
        return vector

    def _take(self, step: Step) -> None:
        total = sum(one.weight * self.decoded(one.body, one.codec).astype(np.float64) for one in step.added)
        root = math.sqrt(sum(one.count for one in step.added))
        mean = sum(one.weight for one in step.added) / len(step.added)
        gradient = torch.from_numpy(np.asarray(total / (root * mean), np.float32))
        self._optimizer.step(gradient, scale=step.scale * root, frames=step.frames)


class ReplayedSum(GradientSum):
    """The learner's own sum, which notes its additions and steps; `stepped` is called with each new weight vector."""

    def __init__(self, settings: Settings, replay: Replay, stepped: Callable[[Vector], object]) -> None:
        none = Normalization(0, rewards=False)
        optimizer = fresh(settings)
        super().__init__(Weights(optimizer, none.extras(), none), bound=GradientBound(MAX_NORM))
        self.steps: list[Step] = []
        """Steps of this epoch."""
        self.key: Key = ("", 0)
        """Key of the gradient that is being judged."""
        self._added: list[Added] = []
        self._replay = replay
        self._stepped = stepped

    def restore(self, version: int, checkpoint: Checkpoint) -> None:
        self.weights.restore(checkpoint.weights, checkpoint.optimizer, None)
        self._replay.rewind(version)

    def add(
        self,
        body: Buffer,
        codec: str = "",
        *,
        weight: float,
        count: int = 1,
        lag: int = 0,
        source: str = "",
        summed: bool = False,
    ) -> None:
        super().add(body, codec, weight=weight, count=count, lag=lag, source=source, summed=summed)
        self._added.append(Added(bytes(body), codec, weight, count, self.key))

    def step(self, *, scale: float, frames: int) -> StepResult:
        result = super().step(scale=scale, frames=frames)
        step = Step(self._added, scale, frames)
        self._added = []
        self.steps.append(step)
        self._replay.step(step)
        vector = self.weights.vector.numpy()
        if np.abs(vector - self._replay.vector).max() > CLOSE:
            version = len(self._replay.history)
            raise Violation(f"the weights of version {version} are {vector}, {self._replay.vector} by what was added")
        self._stepped(vector)
        return result
