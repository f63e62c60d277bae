"""The model whose network is computed by torch, on any device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, autograd

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.model import Floats, Model, plan
from common.rl.networks import registry
from common.rl.networks.flat import flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.normalization import Normalized
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Settings

_KEPT_CHUNKS = 16
"""Up to this many chunks the graph of the first pass is kept (0.2 MB a frame for conv nets); beyond, a second pass."""


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
        self._pass: _Pass | None = None
        """The last `forward`'s, until `backward`."""

    def to(self, device: torch.device) -> TorchModel:
        """This model with network and vectors on `device`; the old one must not be used any more."""
        target = None if self.target is None else self.target.to(device)
        return TorchModel(self.network.to(device), self.extras, self.normalization, target)

    @property
    def vector(self) -> Floats:
        return self.flat.vector.numpy()

    @property
    def gradient(self) -> Floats:
        return self.flat.gradient.numpy()

    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        device = self.flat.vector.device
        seen, before = torch.from_numpy(observations), torch.from_numpy(state)
        outputs, after = self.network.step(seen.to(device, non_blocking=True), before.to(device))
        return outputs.cpu().numpy(), after.cpu().numpy()

    @torch.no_grad()
    def outputs(self, rollout: Rollout, moved: Any = None) -> Floats:
        return _Pass(self.network, rollout, moved, self.flat.vector.device, graph=False).outputs.cpu().numpy()

    def forward(self, rollout: Rollout, moved: Any = None) -> Floats:
        self._pass = _Pass(self.network, rollout, moved, self.flat.vector.device, graph=True)
        return self._pass.outputs.detach().cpu().numpy()

    def backward(self, derivative: Floats) -> None:
        assert self._pass is not None, "backward without forward"
        self.flat.zero()
        self._pass.backward(torch.from_numpy(derivative).to(self.flat.vector.device))
        self._pass = None

    def clip_gradient(self, max_norm: float) -> float:
        vector = self.flat.gradient
        norm = float(torch.linalg.vector_norm(vector))
        if 0 < max_norm < norm:
            vector.mul_(max_norm / norm)
        return norm


class _Pass:
    """One pass of a network over a rollout's observations, a chunk at a time."""

    def __init__(
        self, network: PolicyValue, rollout: Rollout, moved: Any, device: torch.device, *, graph: bool
    ) -> None:
        """graph: `backward` will be called."""
        self._network = network
        # A CPU computes a chunk at a time, which its cache holds; other devices as much at once as keeps its graph.
        self._size = network.chunk if device.type == "cpu" else _KEPT_CHUNKS * network.chunk
        observations = torch.from_numpy(rollout.observations).to(device, non_blocking=True) if moved is None else moved
        self._chunks = torch.split(observations.flatten(0, 1), self._size)
        self._kept = graph and len(self._chunks) * self._size <= _KEPT_CHUNKS * network.chunk
        with torch.set_grad_enabled(self._kept):
            self._parts = [network.features(chunk) for chunk in self._chunks]
        self._features = torch.cat([part.detach() for part in self._parts])
        self.outputs = self._features
        """Of a recurrent network with a graph that ends in the features' gradient."""
        if network.state_size:
            if rollout.state is None:
                raise ValueError("rollout: a recurrent network needs the state before its first observation")
            state, valid = (torch.from_numpy(part).to(device) for part in (rollout.state, rollout.valid))
            self.outputs = network.unroll(self._features.requires_grad_(graph), state, valid)

    def backward(self, derivative: Tensor) -> None:
        """Add to the parameters' gradients."""
        if self._network.state_size:
            autograd.backward(self.outputs, derivative)
            assert self._features.grad is not None
            derivative = self._features.grad
        parts = zip(self._chunks, self._parts, torch.split(derivative, self._size), strict=True)
        for chunk, part, part_derivative in parts:
            autograd.backward(part if self._kept else self._network.features(chunk), part_derivative)


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> TorchModel:
    """The model of a run; the same arguments give the same one on every host.

    Raises ConfigurationError where the network or the algorithm does not fit the observations or the actions.
    """
    decided, normalization, extras = plan(settings, observation, action)

    def one(target: TorchModel | None) -> TorchModel:
        network = registry.build(settings.network, observation, decided, settings.seed)
        if normalization.observations:
            network = Normalized(network, torch.from_numpy(extras), normalization.observations)
        return TorchModel(network, extras, normalization, target)

    return one(one(None) if METHODS[settings.algorithm.kind].has_target else None)
