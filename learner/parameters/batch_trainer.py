"""The weights and what changes them where the learner computes the gradients: rollouts in, optimizer steps."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from common.rl.algorithms.losses import Floats
from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.gradient import gradient
from common.rl.model import Model
from common.rl.rollout import Rollout, join
from common.settings.sections import Algorithm
from common.wire.frames import Buffer
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.running_stats import Running
from learner.parameters.weights import ParameterStore

_log = logging.getLogger(__name__)

Unpack = Callable[[Buffer, str, int], Rollout]
"""From a message's body, its codec and its number of rollouts; raises CodecError."""


def no_bodies(body: Buffer, codec: str, count: int) -> Rollout:
    """For a trainer that is given rollouts alone."""
    raise NotImplementedError


class Trainer(ParameterStore):
    """A model on the optimizer's device; the vector that is stepped and sent is that of its network's parameters."""

    def __init__(
        self,
        model: Model,
        optimizer: FlatOptimizer,
        section: Algorithm,
        *,
        unpack: Unpack = no_bodies,
        delay_seconds: float = 0.0,
        average: bool = False,
        running: Running | None = None,
        seed: int = 0,
    ) -> None:
        """`optimizer` steps `model.flat.vector`; `seed`: of the shuffling of minibatches; the rest as in the base."""
        super().__init__(
            model.flat.vector,
            optimizer,
            delay_seconds=delay_seconds,
            average=average,
            extras=model.extras,
            running=running,
        )
        self.model = model
        self._section, self._unpack = section, unpack
        self._generator = torch.Generator().manual_seed(seed)
        self._rollouts_waiting: list[tuple[Rollout, float]] = []

    def add(self, body: Buffer, codec: str, weight: float, count: int = 1, lag: int = 0) -> None:  # noqa: ARG002
        """Adds packed rollouts, `count` of them, to the next step; raises CodecError, with nothing added."""
        self.take(self._unpack(body, codec, count), weight, count)

    def take(self, rollout: Rollout, weight: float = 1.0, count: int = 1) -> None:
        """Adds a rollout to the next step: on the CPU, not written until then, of `count` joined, with this weight.

        All rollouts of a step have equally many steps.
        """
        self._rollouts_waiting.append((rollout, weight))
        self._rollouts += count
        self._weights += weight

    def step(self, *, scale: float, frames: int) -> Mapping[str, float]:
        """Learns from what was added, all of it as one batch: one optimizer step, or one per epoch and minibatch.

        As for gradients (see the base) a step on n rollouts is as long as n steps, unless the store averages. A
        gradient that is no number ends the batch without a step. Returns the means of the loss's statistics.
        """
        waiting, self._rollouts_waiting = self._rollouts_waiting, []
        if not waiting:
            return {}
        started = time.monotonic()
        root = 1.0 if self._average else math.sqrt(self._rollouts)
        weights = self._columns(waiting)
        self._rollouts, self._weights = 0, 0.0
        learnt: list[Statistics] = []
        for part, part_weights in self._parts(join([rollout for rollout, _ in waiting]), weights):
            statistics = gradient(self.model, part, self._section, part_weights)
            if not math.isfinite(statistics.gradient_norm):
                _log.warning("a batch of %d rollouts gave a gradient that is not finite: left out", len(waiting))
                break
            if learnt and 0 < self._section.target_kl < statistics.kl:
                break
            learnt.append(statistics)
            self.optimizer.step(self.model.flat.gradient.mul_(root), scale=scale * root, frames=frames)
        self._stepped(started)
        return _means(learnt)

    def _columns(self, waiting: list[tuple[Rollout, float]]) -> Floats | None:
        """Weights (B,) of the batch's environments, of mean 1 over the rollouts; None: all alike."""
        given = [weight for _, weight in waiting]
        if min(given) == max(given):
            return None
        mean = sum(given) / len(given)
        parts = [np.full(rollout.actions.shape[1], weight / mean, np.float32) for rollout, weight in waiting]
        return np.concatenate(parts)

    def _parts(self, rollout: Rollout, weights: Floats | None) -> Iterator[tuple[Rollout, Floats | None]]:
        """What each optimizer step is taken on."""
        if not METHODS[self._section.kind].repeats:
            yield rollout, weights
            return
        # Once for all epochs; the loss itself is computed on the CPU.
        rollout = replace(rollout, observations=rollout.observations.to(self.vector.device))
        for _ in range(self._section.epochs):
            order = torch.randperm(rollout.actions.shape[1], generator=self._generator)
            for chosen in torch.tensor_split(order, min(self._section.minibatches, len(order))):
                yield rollout.columns(chosen), None if weights is None else weights[chosen.numpy()]


def _means(learnt: list[Statistics]) -> dict[str, float]:
    if not learnt:
        return {}
    return dict(zip(Statistics._fields, np.mean(learnt, axis=0).tolist(), strict=True))
