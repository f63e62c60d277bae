"""Several devices of one host compute one gradient: each one the part of some of the batch's environments.

Only the passes through the network are shared out. The loss is a small computation on the outputs of all steps, and is
done on the first device: means, normalised advantages and the figures are those of the whole batch, as with one device.
torch copies between devices on the current streams of both, so that nothing is read before it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.model import Floats, Model
from common.rl.networks.model import TorchModel
from common.rl.networks.tensor_rollout import TensorRollout


class Replicas(Model):
    """A model, and a copy of it on each further device, which takes over its weights at the beginning of each pass."""

    target: Replicas | None

    def __init__(self, model: TorchModel, others: Sequence[torch.device]) -> None:
        target = None if model.target is None else Replicas(model.target, others)
        super().__init__(model.extras, model.normalization, target)
        self.action, self.state_size = model.action, model.state_size
        self.size, self.hash = model.size, model.hash
        self._first = model
        self._others = [model.twin(device) for device in others]
        self._devices = [one.flat.vector.device for one in (model, *self._others)]
        self._columns: list[int] = []
        """Number of environments on each device in the last `forward`."""

    def accelerate(self, probe: Tensor, *, bfloat16: bool, compiled: bool) -> None:
        """As `TorchModel.accelerate`, for all models."""
        for model in self._models + self._further:
            model.accelerate(probe.to(model.flat.vector.device), bfloat16=bfloat16, compiled=compiled)

    def renew_statistics(self) -> None:
        """As `TorchModel.renew_statistics`, for all models."""
        for model in self._models + self._further:
            model.renew_statistics()

    def spare_memory(self) -> int:
        """As `TorchModel.spare_memory`, for all models."""
        return max(model.spare_memory() for model in self._models + self._further)

    @property
    def vector(self) -> Floats:
        return self._first.vector

    @property
    def gradient(self) -> Floats:
        return self._first.gradient

    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        return self._first.step(observations, state)

    def outputs(self, rollout: Any) -> Tensor:
        shards = self._shared_out(rollout)
        return self._joined([model.outputs(shard) for model, shard in zip(self._models, shards, strict=False)], shards)

    def forward(self, rollout: Any) -> Tensor:
        shards = self._shared_out(rollout)
        self._columns = [shard.rewards.shape[1] for shard in shards]
        return self._joined([model.forward(shard) for model, shard in zip(self._models, shards, strict=False)], shards)

    def backward(self, derivative: Tensor) -> None:
        """Set the first model's gradient to the sum over all devices."""
        columns = torch.split(derivative.view(-1, sum(self._columns), derivative.shape[1]), self._columns, dim=1)
        parts = [part.to(device, non_blocking=True) for part, device in zip(columns, self._devices, strict=False)]
        for model, part in zip(self._models, parts, strict=False):
            model.backward(part.flatten(0, 1))
        for model in self._others[: len(parts) - 1]:
            self._first.flat.gradient.add_(self._to_first(model.flat.gradient))

    def clip_gradient(self, max_norm: float) -> Any:
        return self._first.clip_gradient(max_norm)

    @property
    def _models(self) -> list[TorchModel]:
        return [self._first, *self._others]

    @property
    def _further(self) -> list[TorchModel]:
        """The target networks on the further devices; the first model has its own."""
        return [] if self.target is None else self.target._others

    def _shared_out(self, rollout: TensorRollout) -> list[TensorRollout]:
        """Return a part of the rollout for each device, with the newest weights there; fewer for fewer environments."""
        shards = rollout.shared_out(self._devices)
        for model in self._others[: len(shards) - 1]:
            model.flat.vector.copy_(self._first.flat.vector, non_blocking=True)
        return shards

    def _joined(self, outputs: Sequence[Tensor], shards: Sequence[TensorRollout]) -> Tensor:
        """Join the outputs of all parts: ((T + 1) B, width) on the first device, time first."""
        rows = [one.view(-1, shard.rewards.shape[1], one.shape[1]) for one, shard in zip(outputs, shards, strict=True)]
        return torch.cat([self._to_first(one) for one in rows], dim=1).flatten(0, 1)

    def _to_first(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._devices[0], non_blocking=True)
