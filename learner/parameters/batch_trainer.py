"""Trains on rollouts: the learner computes the gradients and takes optimizer steps, here on a CPU."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.losses import Floats
from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.arrays import Array
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel
from common.rl.rollout import Rollout, join
from common.settings.sections import Algorithm
from learner.parameters.step_result import StepResult
from learner.parameters.weights import Weights

NOT_FINITE = "its gradient is not finite (NaN or infinity)"


@dataclass(frozen=True)
class Waiting:
    """A rollout that waits for the next step."""

    rollout: Rollout
    weight: float
    count: float


class BatchTrainer:
    """Collects rollouts, and trains on all of them as one batch."""

    reach: int | None = None
    """Largest lag of a rollout that can be added; None: any."""

    def __init__(
        self, model: TorchModel, weights: Weights, section: Algorithm, *, average: bool = False, seed: int = 0
    ) -> None:
        """`model` is on the optimizer's device; its flat vector is that of `weights`.

        `average`: a step on n rollouts is as long as a step on one. `seed`: seeds the shuffling of minibatches,
        together with the frames of the run, so that a resumed run shuffles as it would have without the restart.
        """
        self.model = model
        self.weights = weights
        self._section = section
        self._average = average
        self._seed = seed
        self._waiting: list[Waiting] = []
        self._finished = StepResult()

    def add(self, rollout: Rollout, *, weight: float = 1.0, count: float = 1) -> None:
        """Add a rollout on the CPU, which is `count` rollouts joined into one; it must not be changed until `step`.

        A rollout of only a part of an actor's environments has that fraction as `count`. All rollouts of a step have
        equally many steps.
        """
        self._waiting.append(Waiting(rollout, weight, count))

    def step(self, *, scale: float, frames: int) -> StepResult:
        """Train on all rollouts as one batch: one optimizer step, or one per epoch and minibatch.

        As for gradients (see GradientSum.step), a step on n rollouts is as long as n steps, unless it averages. A
        rollout whose gradient is not finite is left out, and the step is taken with the others. The result holds the
        means of the loss's statistics.
        """
        self.begin(scale=scale, frames=frames)
        return self.finish()

    def begin(self, *, scale: float, frames: int) -> None:
        """Begin a step: the first half of `step`, and on a CPU all of it."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._finished = self._result(waiting, self._train(waiting, scale, frames), scale, frames)

    @property
    def troubles(self) -> list[str]:
        """What is wrong with the device, in texts whose changing numbers are in brackets."""
        return []

    @property
    def is_over(self) -> bool:
        """Whether `finish` would not have to wait for what `begin` has begun."""
        return True

    def finish(self) -> StepResult:
        """Finish a step, the second half of `step`; return its result."""
        finished, self._finished = self._finished, StepResult()
        return finished

    def _result(self, waiting: list[Waiting], steps: list[Statistics] | None, scale: float, frames: int) -> StepResult:
        """Return the result of the batch; if its gradient was not finite, try again without the rollouts at fault."""
        left_out: dict[int, str] = {}
        to_blame = True
        if steps is None:
            left_out = dict.fromkeys(self._not_finite(waiting), NOT_FINITE)
            rest = [one for number, one in enumerate(waiting) if number not in left_out]
            steps = self._train(rest, scale, frames) if left_out and rest else None
            if steps is None:
                to_blame = len(waiting) == 1 and self.weights.finite
                left_out = dict.fromkeys(range(len(waiting)), NOT_FINITE)
        if not steps:
            return StepResult({}, left_out, to_blame)
        means = np.mean(steps, axis=0).tolist()
        return StepResult(dict(zip(Statistics._fields, means, strict=True)), left_out)

    def _train(self, waiting: list[Waiting], scale: float, frames: int) -> list[Statistics] | None:
        """Train; return the statistics of each step. None: the first gradient was not finite, so no step was taken."""
        root = self._root(waiting)
        steps: list[Statistics] = []
        rollout, weights = self._as_one(waiting)
        for chosen in self._minibatches(rollout, frames):
            part, its_weights = minibatch(rollout, weights, chosen)
            statistics = gradient(self.model, part, self._section, its_weights)
            if not math.isfinite(statistics.gradient_norm):
                return steps or None
            if steps and 0 < self._section.target_kl < statistics.kl:
                break
            steps.append(statistics)
            self.weights.step(self.model.flat.gradient.mul_(root), scale=scale * root, frames=frames)
        return steps

    def _root(self, waiting: list[Waiting]) -> float:
        """Return how many times as long a step on all rollouts is as a step on their mean."""
        return 1.0 if self._average else math.sqrt(sum(one.count for one in waiting))

    def _not_finite(self, waiting: list[Waiting]) -> list[int]:
        """Return the numbers of the rollouts whose own gradient is not finite."""
        norms = [gradient(self.model, one.rollout, self._section).gradient_norm for one in waiting]
        return [number for number, norm in enumerate(norms) if not math.isfinite(norm)]

    def _as_one(self, waiting: list[Waiting]) -> tuple[Any, Array | None]:
        """Return all rollouts as one, with the weights (B,) of its environments, on the network's device."""
        rollout, weights = self._joined([one.rollout for one in waiting]), column_weights(waiting)
        method = METHODS[self._section.kind]
        if method.steps is not None and not self.model.state_size:
            weights = None if weights is None else np.tile(weights, len(rollout.rewards))
            rollout = method.steps(self._section, self._outputs(rollout), rollout)
        return rollout, None if weights is None else self._there([weights])[0]

    def _minibatches(self, rollout: Any, frames: int) -> list[Array | None]:
        """Return the columns (n,) of each step's minibatch, on the network's device; None: all of them.

        A minibatch consists of steps from anywhere in the batch; for a recurrent network, of whole environments.
        """
        if not METHODS[self._section.kind].repeats:
            return [None]
        return [*self._there(list(self._shuffled(rollout.rewards.shape[1], frames)))]

    def _joined(self, rollouts: list[Rollout]) -> Any:
        return join(rollouts)

    def _outputs(self, rollout: Any) -> Array:
        return self.model.outputs(rollout)

    def _there(self, arrays: list[NDArray[Any]]) -> list[Array]:
        """Return the arrays on the network's device."""
        return list(arrays)

    def _shuffled(self, columns: int, frames: int) -> Iterator[NDArray[np.int64]]:
        """Yield the columns of each minibatch of each epoch."""
        generator = np.random.default_rng([self._seed, frames])
        for _ in range(self._section.epochs):
            yield from np.array_split(generator.permutation(columns), min(self._section.minibatches, columns))


def minibatch(rollout: Any, weights: Array | None, chosen: Array | None) -> tuple[Any, Array | None]:
    """Return the chosen columns (n,) of a batch and of its weights; None: all of them."""
    if chosen is None:
        return rollout, weights
    return rollout.columns(chosen), None if weights is None else weights[chosen]


def column_weights(waiting: list[Waiting]) -> Floats | None:
    """Return the weights (B,) of the batch's environments, with mean 1 over the rollouts; None: all are equal."""
    given = [one.weight for one in waiting]
    if min(given) == max(given):
        return None
    mean = sum(given) / len(given)
    parts = [np.full(one.rollout.actions.shape[1], one.weight / mean, np.float32) for one in waiting]
    return np.concatenate(parts)
