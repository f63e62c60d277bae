"""The model whose network is dense and computed by numpy: it needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.dense.layout import DenseLayout, trunk_layout
from common.rl.dense.network import DenseNetwork
from common.rl.model import Floats, Model, fingerprint, plan
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Settings


class DenseModel(Model):
    """Its parameters are 0 until weights are loaded."""

    state_size = 0

    def __init__(
        self, layout: DenseLayout, extras: Floats, normalization: Normalization, target: DenseModel | None = None
    ) -> None:
        super().__init__(extras, normalization, target)
        self._network = DenseNetwork(layout, extras)
        self.action = layout.action
        self.size = self._network.vector.size
        self.hash = fingerprint(layout.architecture, layout.parameters)

    @property
    def vector(self) -> Floats:
        return self._network.vector

    @property
    def gradient(self) -> Floats:
        return self._network.gradient

    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        return self._network.act(observations), state

    def outputs(self, rollout: Rollout) -> Floats:
        return self.forward(rollout)

    def forward(self, rollout: Rollout) -> Floats:
        observations = rollout.observations
        return self._network.forward(observations.reshape(-1, *observations.shape[2:]))

    def backward(self, derivative: Floats) -> None:
        self._network.backward(derivative)

    def clip_gradient(self, max_norm: float) -> float:
        return clip_norm(self._network.gradient, max_norm)


def clip_norm(vector: Floats, max_norm: float) -> float:
    """Scale `vector` in place so that its L2 norm is at most `max_norm` (0: no limit); return the norm it had."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.dot(vector, vector))
        if not square < np.inf:  # the squares of large numbers are beyond float32
            square = float(np.square(vector, dtype=np.float64).sum())
        norm = float(np.sqrt(square))
        if 0 < max_norm < norm:
            vector *= max_norm / norm
    return norm


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec) -> DenseModel:
    """Return the model of a run whose network is dense and feed-forward; raises as `common.rl.networks.model.build`."""
    decided, normalization, extras = plan(settings, observation, action)
    section = settings.network
    masked = observation.seen is not None
    layout = DenseLayout(trunk_layout(section, observation.bare), decided, section.shared, section.normalize, masked)
    target = DenseModel(layout, extras, normalization) if METHODS[settings.algorithm.kind].has_target else None
    return DenseModel(layout, extras, normalization, target)
