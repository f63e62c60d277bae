"""Dense layers on a flattened observation."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

from common.rl.networks.trunk import Trunk
from common.rl.observation_spec import ObservationSpec


class DenseTrunk(Trunk):
    """Dense layers of `hidden` units with an activation after each. Takes every kind of observation."""

    chunk = 4096

    def __init__(
        self,
        observation: ObservationSpec,
        hidden: Sequence[int],
        activation: Literal["relu", "tanh"],
        generator: torch.Generator,
        input_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.observation = observation
        self.features = hidden[-1]
        self.architecture = f"dense {observation.kind} {activation} x{input_scale:g}"
        self._scale = input_scale if observation.kind == "box" else 1.0
        self._activation = torch.relu if activation == "relu" else torch.tanh
        layers = []
        inputs = observation.size
        for index, units in enumerate(hidden):
            layers.append(self._layer(f"dense{index}", units, inputs, generator=generator))
            inputs = units
        self._layers = tuple(layers)

    def forward(self, observations: Tensor) -> Tensor:
        x = encode(self.observation, observations)
        if self._scale != 1.0:
            x = x * self._scale
        for weight, bias in self._layers:
            x = self._activation(linear(x, weight, bias))
        return x


def encode(spec: ObservationSpec, observations: Tensor) -> Tensor:
    """Return a batch of observations (N, *shape) as float32 (N, size) for a dense layer.

    Boxes are flattened, pixels scaled to 0..1, discrete values one-hot.
    """
    if spec.kind == "discrete":
        rows = observations.float().new_zeros((len(observations), spec.size))
        return rows.scatter_(1, observations.unsqueeze(1), 1.0)
    if spec.kind == "pixels":
        return observations.flatten(1).float().mul_(1 / 255)
    return observations.flatten(1)
