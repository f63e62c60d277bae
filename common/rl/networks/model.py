"""The model whose network is computed by torch, on any device."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, autograd, nn

from common.rl import arrays
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.arrays import Array
from common.rl.model import Floats, Model, plan
from common.rl.networks import acceleration, registry
from common.rl.networks.acceleration import Features
from common.rl.networks.chunks import Chunks
from common.rl.networks.flat import flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.masking import Masked
from common.rl.networks.normalization import Normalized
from common.rl.networks.pictures import PictureTrunk
from common.rl.networks.statistics import Statistics
from common.rl.networks.tensors import TENSORS
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Settings

arrays.put_in_place(TENSORS)


class TorchModel(Model):
    """`flat` holds the network's parameters and their gradient, on its device."""

    target: TorchModel | None

    def __init__(
        self, network: PolicyValue, extras: Floats, normalization: Normalization, target: TorchModel | None = None
    ) -> None:
        super().__init__(extras, normalization, target)
        self.network = network
        self.flat = flatten(network)
        self.action = network.action
        self.state_size = network.state_size
        self.size, self.hash = self.flat.size, self.flat.hash
        self._chunks = Chunks(network, self.flat.vector.device)
        self._features: Features = network.features
        self._pass: _Pass | None = None
        """The pass of the last `forward`, until `backward`."""
        self._fetches = True
        self.renew_statistics()

    def renew_statistics(self) -> None:
        """Take over the running statistics as they are now; a network on a CPU always has those."""
        for statistics in self._statistics():
            statistics.renew(self.flat.vector.device)
        if self.target is not None:
            self.target.renew_statistics()

    def to(self, device: torch.device) -> TorchModel:
        """Return this model with network and vectors on `device`; the old one must not be used any more."""
        target = None if self.target is None else self.target.to(device)
        return TorchModel(self.network.to(device), self.extras, self.normalization, target)

    def twin(self, device: torch.device | None = None) -> TorchModel:
        """Return a model with a copy of the current parameters, without the target network.

        device: that of the copy; None: the device of this model.
        """
        own = device or self.flat.vector.device
        given: dict[int, Any] = {
            id(one): nn.Parameter(one.detach().to(own, copy=True)) for one in self.network.parameters()
        }
        given |= {id(one): one.detach().to(own, copy=True) for one in self.network.buffers()}
        for statistics in self._statistics():  # both share those in the extras, which change in place
            given[id(statistics.shared)] = statistics.shared
        return TorchModel(copy.deepcopy(self.network, given), self.extras, self.normalization)

    def _statistics(self) -> list[Statistics]:
        found = (one.statistics for one in self.network.modules() if isinstance(one, Normalized | PictureTrunk))
        return [statistics for statistics in found if statistics is not None]

    def accelerate(self, probe: Tensor, *, bfloat16: bool, compiled: bool) -> None:
        """From now on compute outputs and gradients, but not steps, by `acceleration.features`; raises as that does."""
        self._features = acceleration.features(self.network, probe, bfloat16=bfloat16, compiled=compiled)
        self.flat.zero()
        if self.target is not None:
            self.target.accelerate(probe, bfloat16=bfloat16, compiled=compiled)

    def spare_memory(self) -> int:
        """Compute half as many observations at a time from now on, since the device had no memory for a pass.

        Return how many; 0 if it was one already.
        """
        self._pass = None
        return max(one._chunks.halve() for one in (self, *([] if self.target is None else [self.target])))

    @property
    def vector(self) -> Floats:
        return self.flat.vector.numpy()

    @property
    def gradient(self) -> Floats:
        return self.flat.gradient.numpy()

    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        outputs, after = self.network.step(torch.from_numpy(observations), torch.from_numpy(state))
        # A tensor of an array and an array of that keep each other's memory: a state handed on like this for every step
        # would keep them all, and these split the memory freed in between (0.4 MB a step with 16 ALE games).
        return outputs.numpy(), after.numpy() if self.state_size else state

    @torch.no_grad()
    def outputs(self, rollout: Rollout) -> Array:
        return _as_given(_Pass(self.network, self._features, self._chunks, rollout, graph=False).outputs, rollout)

    def forward(self, rollout: Rollout) -> Array:
        self._pass = _Pass(self.network, self._features, self._chunks, rollout, graph=True)
        self._fetches = isinstance(rollout.observations, np.ndarray)
        return _as_given(self._pass.outputs.detach(), rollout)

    def backward(self, derivative: Array) -> None:
        assert self._pass is not None, "backward without forward"
        self.flat.zero()
        self._pass.backward(torch.as_tensor(derivative))
        self._pass = None

    def clip_gradient(self, max_norm: float) -> Any:
        vector = self.flat.gradient
        norm = torch.linalg.vector_norm(vector)
        if self._fetches:
            length = float(norm)
            if 0 < max_norm < length:
                vector.mul_(max_norm / length)
            return length
        if max_norm:
            vector.mul_((max_norm / norm).clamp_(max=1.0))
        return norm


class _Pass:
    """One pass of a network over a rollout's observations, a chunk at a time."""

    def __init__(
        self, network: PolicyValue, features: Features, chunks: Chunks, rollout: Rollout, *, graph: bool
    ) -> None:
        """rollout: of numpy arrays, if the network is on the CPU, or on its device. graph: `backward` follows."""
        self._network = network
        self._compute = features
        observations = torch.as_tensor(rollout.observations).flatten(0, 1)
        # The last observations only bootstrap: losses take their values as constants. A GPU is faster with one batch.
        last = len(observations) - rollout.valid.shape[0] * rollout.valid.shape[1]
        apart = last if graph and observations.device.type == "cpu" else 0
        self._learnt = len(observations) - apart
        """Number of observations that have a graph; for the others one is made only if their derivative is not 0."""
        self._size, kept = chunks.of(observations[: self._learnt])
        self._chunks = torch.split(observations[: self._learnt], self._size)
        self._last = torch.split(observations[self._learnt :], self._size)
        self._kept = graph and kept
        with torch.set_grad_enabled(self._kept):
            self._parts = [features(chunk) for chunk in self._chunks]
        with torch.no_grad():
            bootstraps = [features(chunk) for chunk in self._last if apart]
        self._features = torch.cat([part.detach() for part in self._parts + bootstraps])
        self.outputs = self._features
        """A recurrent network's outputs have a graph that ends at the features, which then get a gradient."""
        if network.state_size:
            if rollout.state is None:
                raise ValueError("rollout: a recurrent network needs the state before its first observation")
            state, valid = torch.as_tensor(rollout.state), torch.as_tensor(rollout.valid)
            self.outputs = network.unroll(self._features.requires_grad_(graph), state, valid)

    def backward(self, derivative: Tensor) -> None:
        """Add the gradient to that of the parameters. derivative: with respect to `outputs`."""
        if self._network.state_size:
            autograd.backward(self.outputs, derivative)
            assert self._features.grad is not None
            derivative = self._features.grad
        parts = zip(self._chunks, self._parts, torch.split(derivative[: self._learnt], self._size), strict=True)
        for chunk, part, part_derivative in parts:
            autograd.backward(part if self._kept else self._compute(chunk), part_derivative)
        if len(last := derivative[self._learnt :]) and last.any():
            for chunk, part_derivative in zip(self._last, torch.split(last, self._size), strict=True):
                autograd.backward(self._compute(chunk), part_derivative)


def _as_given(outputs: Tensor, rollout: Rollout) -> Array:
    return outputs.numpy() if isinstance(rollout.observations, np.ndarray) else outputs


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> TorchModel:
    """Return the model of a run; the same arguments give the same model on every host.

    Raises ConfigurationError where the network or the algorithm does not fit the observations or the actions.
    """
    decided, normalization, extras = plan(settings, observation, action)
    background = torch.from_numpy(normalization.background(extras)) if normalization.pixels else None

    def one(target: TorchModel | None) -> TorchModel:
        network = registry.build(settings.network, observation.bare, decided, settings.seed, background)
        if normalization.observations:
            network = Normalized(network, torch.from_numpy(extras), normalization.observations)
        if observation.seen is not None:
            network = Masked(network, observation.seen)
        return TorchModel(network, extras, normalization, target)

    model = one(one(None) if METHODS[settings.algorithm.kind].has_target else None)
    if model.target is not None:  # a network of one's own may draw its weights from elsewhere than torch's generator
        model.target.flat.vector.copy_(model.flat.vector)
    return model
