"""Training on a GPU: rollouts are copied to it as they arrive, and the host does not wait for it within a batch.

Whether a step is taken - is the gradient finite, is the policy still near the one that acted - is decided on the
device, step by step: once a step is not taken, none that follows is. The figures of all steps of a batch are copied to
the host together, at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.algorithms.statistics import Statistics
from common.rl.frame_stack import StackedFrames
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel
from common.rl.networks.tensor_rollout import TensorRollout, join
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm
from learner.parameters.batch_trainer import BatchTrainer, Waiting, minibatch
from learner.parameters.gradient_graphs import GradientGraphs, Record, recorder
from learner.parameters.replicas import Replicas
from learner.parameters.step_result import StepResult
from learner.parameters.transport import Transport
from learner.parameters.weights import Weights


class Deferred(Protocol):
    """Observations that stand in for an array and are turned into a tensor on the device later."""

    shape: tuple[int, ...]
    """(T + 1, B), perhaps with further dimensions."""

    def tensor(self) -> Tensor:
        """Return the observations (T + 1, B, *shape) on the device; called within the transport's `acting`."""


Result = TypeVar("Result")

NORM, KL = (Statistics._fields.index(name) for name in ("gradient_norm", "kl"))


@dataclass(frozen=True)
class _Batch:
    """A batch that is being trained on. It keeps the rollouts' memory until that is over."""

    waiting: list[Waiting]
    scale: float
    frames: int
    figures: Callable[[], NDArray[np.float32]]
    """Waits for all steps; returns (steps, figures of `Statistics`)."""
    is_over: Callable[[], bool]


class DeviceTrainer(BatchTrainer):
    """A `BatchTrainer` for a model on the device of a transport."""

    def __init__(
        self,
        model: TorchModel,
        weights: Weights,
        section: Algorithm,
        transport: Transport,
        *,
        average: bool = False,
        seed: int = 0,
        replicas: Replicas | None = None,
        record: Record | None = None,
    ) -> None:
        """`replicas`: the model on several devices, which compute its gradient together; None: it is on one.

        `record`: records what the device computes, to start it as a whole; None: the host starts each kernel.
        """
        super().__init__(model, weights, section, average=average, seed=seed)
        self._transport = transport
        self._computes = replicas or model
        self._batch: _Batch | None = None
        self._graphs = GradientGraphs(self._row, record)
        self._trouble = ""

    def add(self, rollout: Rollout, *, weight: float = 1.0, count: float = 1) -> None:
        """As `BatchTrainer.add`; observations that stand in for an array (`Deferred`) are not copied."""
        super().add(self._moved(rollout), weight=weight, count=count)

    def begin(self, *, scale: float, frames: int) -> None:
        """Begin to train on all rollouts added, without waiting for it."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            with self._transport.acting():
                waiting = [replace(one, rollout=_there(one.rollout)) for one in waiting]
            self._transport.join()
            self._batch = self._begun(waiting, scale, frames)

    @property
    def troubles(self) -> list[str]:
        return [one for one in (self._trouble, self._graphs.trouble) if one]

    @property
    def is_over(self) -> bool:
        """Whether `finish` would not have to wait."""
        return self._batch is None or self._batch.is_over()

    def finish(self) -> StepResult:
        batch, self._batch = self._batch, None
        if batch is None:
            return StepResult()
        return self._result(batch.waiting, self._taken(batch.figures()), batch.scale, batch.frames)

    def _train(self, waiting: list[Waiting], scale: float, frames: int) -> list[Statistics] | None:
        return self._taken(self._begun(waiting, scale, frames).figures())

    def _begun(self, waiting: list[Waiting], scale: float, frames: int) -> _Batch:
        root = self._root(waiting)
        figures: list[Tensor] = []
        goes_on: Tensor | None = None
        self._computes.renew_statistics()
        rollout, weights = self._as_one(waiting)
        gradient_of = self._graphs.of(rollout, weights)
        for chosen in self._minibatches(rollout, frames):
            row = self._within_memory(partial(gradient_of, chosen))
            good = self._is_good(row, first=goes_on is None)
            goes_on = good if goes_on is None else goes_on & good
            figures.append(row)
            self.weights.step(self.model.flat.gradient.mul_(root), scale=scale * root, frames=frames, taken=goes_on)
        is_over = self._transport.mark()
        return _Batch(waiting, scale, frames, self._transport.begin_down(torch.stack(figures)), is_over)

    def _row(self, rollout: TensorRollout, weights: Tensor | None, chosen: Tensor | None) -> Tensor:
        """Compute the gradient of the chosen columns; return its figures, as in `Statistics`."""
        part, its_weights = minibatch(rollout, weights, chosen)
        statistics = gradient(self._computes, part, self._section, its_weights)
        return torch.stack([self._on_device(one) for one in statistics])

    def _within_memory(self, compute: Callable[[], Result]) -> Result:
        """Compute; while the device has too little memory, try again in smaller passes, which stay from now on."""
        while (found := self._tried(compute)) is None:
            torch.cuda.empty_cache()
        return found

    def _tried(self, compute: Callable[[], Result]) -> Result | None:
        """Compute; return None if there was not enough memory. The pass's memory is freed on return, with the error."""
        try:
            return compute()
        except torch.cuda.OutOfMemoryError:
            if self._graphs.give_up(f"{self._transport.device} had too little memory for a batch"):
                return None
            if not (rows := self._computes.spare_memory()):
                raise
        self._trouble = (
            f"{self._transport.device} had too little memory for a batch: passes through the network are smaller from "
            f"now on ({rows} observations at most)"
        )
        return None

    def _on_device(self, figure: Any) -> Tensor:
        return figure if isinstance(figure, Tensor) else torch.full((), figure, device=self._transport.device)

    def _is_good(self, row: Tensor, *, first: bool) -> Tensor:
        """Return whether a step with these figures is taken, provided that those before it were: a bool () tensor."""
        finite = torch.isfinite(row[NORM])
        return finite if first or not self._section.target_kl else finite & (row[KL] <= self._section.target_kl)

    def _taken(self, figures: NDArray[np.float32]) -> list[Statistics] | None:
        """Return the statistics of the steps that were taken, by the rule of `_is_good`; None: not even the first."""
        limit = self._section.target_kl or math.inf
        steps: list[Statistics] = []
        for row in figures.tolist():
            if not math.isfinite(row[NORM]) or (steps and not row[KL] <= limit):
                break
            steps.append(Statistics(*row))
        return steps or None

    def _not_finite(self, waiting: list[Waiting]) -> list[int]:
        rollouts: list[Any] = [one.rollout for one in waiting]
        rows = [self._within_memory(partial(self._row, rollout, None, None)) for rollout in rollouts]
        found = self._transport.down(torch.stack(rows))[:, NORM]
        return np.flatnonzero(~np.isfinite(found)).tolist()

    def _joined(self, rollouts: list[Any]) -> TensorRollout:
        return join(rollouts)

    def _outputs(self, rollout: TensorRollout) -> Tensor:
        return self._within_memory(lambda: self._computes.outputs(rollout))

    def _there(self, arrays: list[NDArray[Any]]) -> list[Tensor]:
        return self._transport.up(arrays)

    def _moved(self, rollout: Rollout) -> TensorRollout:
        parts: dict[str, Any] = {field.name: getattr(rollout, field.name) for field in fields(rollout)}
        host = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
        observations: Any = rollout.observations
        frames = (observations.index, *observations.parts) if isinstance(observations, StackedFrames) else ()
        there = self._transport.up([*host.values(), *frames])
        parts |= dict(zip(host, there, strict=False))
        if frames:
            parts["observations"] = _stacked(observations, *there[len(host) :])
        return TensorRollout(**parts)


def _there(rollout: Rollout) -> Rollout:
    observations: Any = rollout.observations
    return rollout if isinstance(observations, Tensor) else replace(rollout, observations=observations.tensor())


def _stacked(observations: StackedFrames, index: Tensor, *parts: Tensor) -> Tensor:
    """Return the stacked observations, (T + 1, B, *stack)."""
    size = math.prod(observations.frame)
    frames = torch.cat([part.reshape(part.numel() // size, *observations.frame) for part in parts])
    return frames.index_select(0, index.flatten()).view(observations.shape)


def trainer_of(
    model: TorchModel,
    weights: Weights,
    section: Algorithm,
    *,
    replicas: Replicas | None = None,
    graphs: bool = False,
    **options: Any,
) -> BatchTrainer:
    """Return the trainer for the device of the weights; `options` are those of `BatchTrainer`.

    graphs: use CUDA graphs, where the device has them; several devices never do.
    """
    if weights.transport.is_host:
        return BatchTrainer(model, weights, section, **options)
    record = recorder(weights.transport.device) if graphs and replicas is None else None
    return DeviceTrainer(model, weights, section, weights.transport, replicas=replicas, record=record, **options)
