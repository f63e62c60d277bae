"""Gradients as CUDA graphs: the kernels of one are recorded, and from then on started together.

A host starts the kernels of a gradient one by one, which for small networks takes several times as long as they run. A
graph is started by one call, but always reads and writes the same memory: there is one for each shape of a batch and
its minibatches, and what it reads is copied to its place first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from common.rl.networks.tensor_rollout import TensorRollout
from learner.parameters.devices import first_line

Gradient = Callable[[TensorRollout, Tensor | None, Tensor | None], Tensor]
"""Computes a gradient from a batch, the weights (B,) of its columns, and the columns (n,) chosen of it (None: all).

Returns the gradient's figures; the gradient itself is always at the same place.
"""
Start = Callable[[], object]
Record = Callable[[Callable[[], Tensor]], tuple[Start, Tensor]]
"""Records a computation; returns what starts it, and its result, which is there after each start."""
Parts = dict[str, Tensor]

SEEN = 3
"""A shape is recorded when it comes for the next time: libraries choose their kernels in the first passes, and most
shapes of batches of a varying number of rollouts come rarely."""
MOST = 16
"""Shapes that are remembered; of more, the one that has not come for longest is forgotten."""


@dataclass
class _Shape:
    """A shape of batches and minibatches."""

    seen: int = 0
    graph: _Graph | None = None


class _Graph:
    """A recorded gradient, and the memory of what it reads."""

    def __init__(self, compute: Gradient, record: Record, batch: Parts, chosen: Tensor | None) -> None:
        self._batch = {name: part.clone() for name, part in batch.items()}
        self._chosen = None if chosen is None else chosen.clone()
        rollout: dict[str, Any] = dict(self._batch)
        weights = rollout.pop("weights", None)
        self._start, self._figures = record(lambda: compute(TensorRollout(**rollout), weights, self._chosen))
        self._number = 0

    def load(self, batch: Parts, number: int) -> None:
        """Copy the batch to where the graph reads it, unless that was done: `number` tells batches apart, from 1."""
        if self._number != number:
            self._number = number
            for name, part in batch.items():
                self._batch[name].copy_(part)

    def gradient(self, chosen: Tensor | None) -> Tensor:
        if self._chosen is not None and chosen is not None:
            self._chosen.copy_(chosen)
        self._start()
        return self._figures.clone()


class GradientGraphs:
    """Computes gradients, those of shapes that come again by graphs."""

    def __init__(self, compute: Gradient, record: Record | None) -> None:
        """record: None: nothing is recorded, and every gradient is computed by `compute`."""
        self._compute = compute
        self._record = record
        self._shapes: dict[Any, _Shape] = {}
        """By shape; the one that came last is the last."""
        self._batches = 0
        self.trouble = ""
        """Why nothing is recorded any more; empty: nothing has gone wrong."""

    def of(self, rollout: TensorRollout, weights: Tensor | None) -> Callable[[Tensor | None], Tensor]:
        """Return the function that computes the gradient of columns (n,) of this batch, or of all of them (None)."""
        batch: Parts = rollout.parts() | ({} if weights is None else {"weights": weights})
        self._batches += 1
        number = self._batches

        def gradient(chosen: Tensor | None) -> Tensor:
            if (graph := self._graph(batch, chosen)) is None:
                return self._compute(rollout, weights, chosen)
            graph.load(batch, number)
            return graph.gradient(chosen)

        return gradient

    def give_up(self, why: str) -> bool:
        """Record nothing any more, and free the memory of all graphs. Return whether there was anything to give up."""
        had, self._record = self._record is not None, None
        self._shapes.clear()
        if had:
            self.trouble = f"CUDA graphs are not used any more, which makes steps slower: {why}"
        return had

    def _graph(self, batch: Parts, chosen: Tensor | None) -> _Graph | None:
        """Return the graph for a batch of this shape; None: there is none."""
        if self._record is None:
            return None
        columns = None if chosen is None else len(chosen)
        key = (columns, *((name, part.shape, part.dtype) for name, part in batch.items()))
        shape = self._shapes[key] = self._shapes.pop(key, _Shape())
        if len(self._shapes) > MOST:
            del self._shapes[next(iter(self._shapes))]
        if shape.graph is None and shape.seen >= SEEN:
            try:
                shape.graph = _Graph(self._compute, self._record, batch, chosen)
            except RuntimeError as error:  # what cannot be recorded can still be computed
                self.give_up(first_line(error))
        shape.seen += 1
        return shape.graph


def recorder(device: torch.device) -> Record | None:
    """Return what records CUDA graphs, all of which share the memory of their intermediate results; None: no CUDA."""
    if device.type != "cuda":
        return None
    pool: Any = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def record(compute: Callable[[], Tensor]) -> tuple[Start, Tensor]:
        graph = torch.cuda.CUDAGraph()
        # The outer context is for a recording that fails: torch then leaves its stream the current one.
        with (
            torch.cuda.stream(torch.cuda.current_stream(device)),
            torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
        ):
            result = compute()
        return graph.replay, result

    return record
