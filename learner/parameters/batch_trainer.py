"""Rollouts in, optimizer steps out: the learner computes the gradients."""

import logging
import math
from collections.abc import Iterator, Mapping
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
from learner.parameters.weights import Weights

_log = logging.getLogger(__name__)


class BatchTrainer:
    """Collects rollouts, and trains on all of them as one batch."""

    reach: int | None = None
    """Largest lag of a rollout that can be added: any."""

    def __init__(
        self, model: Model, weights: Weights, section: Algorithm, *, average: bool = False, seed: int = 0
    ) -> None:
        """`model` is on the optimizer's device; its flat vector is that of `weights`.

        `average`: a step on n rollouts is as long as a step on one; `seed`: of the shuffling of minibatches, with
        the frames of the run: a resumed run shuffles as it would have without the restart.
        """
        self.model = model
        self.weights = weights
        self._section = section
        self._average = average
        self._seed = seed
        self._waiting: list[tuple[Rollout, float]] = []
        self._rollouts = 0

    def add(self, rollout: Rollout, *, weight: float = 1.0, count: int = 1) -> None:
        """Adds a rollout on the CPU, `count` joined into one; it must not be written until `step`.

        All rollouts of a step have equally many steps.
        """
        self._waiting.append((rollout, weight))
        self._rollouts += count

    def step(self, *, scale: float, frames: int) -> Mapping[str, float]:
        """Trains on all rollouts as one batch: one optimizer step, or one per epoch and minibatch.

        As for gradients (see GradientSum.step) a step on n rollouts is as long as n steps, unless it averages. A
        gradient that is not finite ends the batch without a step. Returns the means of the loss's statistics.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return {}
        root = 1.0 if self._average else math.sqrt(self._rollouts)
        self._rollouts = 0
        steps: list[Statistics] = []
        batch = join([rollout for rollout, _ in waiting])
        for part, weights in self._parts(batch, _column_weights(waiting), frames):
            statistics = gradient(self.model, part, self._section, weights)
            if not math.isfinite(statistics.gradient_norm):
                _log.warning("a batch of %d rollouts gave a gradient that is not finite: left out", len(waiting))
                break
            if steps and 0 < self._section.target_kl < statistics.kl:
                break
            steps.append(statistics)
            self.weights.step(self.model.flat.gradient.mul_(root), scale=scale * root, frames=frames)
        if not steps:
            return {}
        return dict(zip(Statistics._fields, np.mean(steps, axis=0).tolist(), strict=True))

    def _parts(self, rollout: Rollout, weights: Floats | None, frames: int) -> Iterator[tuple[Rollout, Floats | None]]:
        if not METHODS[self._section.kind].repeats:
            yield rollout, weights
            return
        # Once for all epochs; the loss itself is computed on the CPU.
        rollout = replace(rollout, observations=rollout.observations.to(self.weights.vector.device))
        generator = np.random.default_rng([self._seed, frames])
        for _ in range(self._section.epochs):
            order = torch.from_numpy(generator.permutation(rollout.actions.shape[1]))
            for chosen in torch.tensor_split(order, min(self._section.minibatches, len(order))):
                yield rollout.columns(chosen), None if weights is None else weights[chosen.numpy()]


def _column_weights(waiting: list[tuple[Rollout, float]]) -> Floats | None:
    """Weights (B,) of the batch's environments, of mean 1 over the rollouts; None: all are alike."""
    given = [weight for _, weight in waiting]
    if min(given) == max(given):
        return None
    mean = sum(given) / len(given)
    parts = [np.full(rollout.actions.shape[1], weight / mean, np.float32) for rollout, weight in waiting]
    return np.concatenate(parts)
