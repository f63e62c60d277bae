"""Dense layers on a flattened observation, in torch."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from common.rl.dense.layout import CHUNK, TrunkLayout
from common.rl.named_tensors import NamedTensor, plain_tensor
from common.rl.networks.plain_layers import Encode
from common.rl.networks.trunk import Trunk
from common.rl.observation_spec import ObservationSpec


class DenseTrunk(Trunk):
    """Dense layers with an activation after each. Takes every kind of observation."""

    chunk = CHUNK

    def __init__(self, layout: TrunkLayout, generator: torch.Generator) -> None:
        super().__init__()
        self.observation = layout.observation
        self.features = layout.features
        self.architecture = layout.architecture
        self._scale = layout.scale
        self._activation = torch.relu if layout.activation == "relu" else torch.tanh
        self._layers = tuple(
            self._layer(name, units, inputs, generator=generator) for name, units, inputs in layout.layers()
        )

    def forward(self, observations: Tensor) -> Tensor:
        x = encode(self.observation, observations)
        if self._scale != 1.0:
            x = x * self._scale
        for weight, bias in self._layers:
            x = self._activation(linear(x, weight, bias))
        return x

    def plain(self) -> nn.Sequential:
        activation = nn.ReLU if self._activation is torch.relu else nn.Tanh
        layers: list[nn.Module] = [Encode(self.observation, self._scale)]
        for weight, _ in self._layers:
            layers += [nn.Linear(weight.shape[1], len(weight)), activation()]
        return nn.Sequential(*layers)

    def named(self, name: str, shape: tuple[int, ...]) -> NamedTensor:
        layer, kind = name.removeprefix("dense").split("_")
        return plain_tensor(f"{1 + 2 * int(layer)}.{kind}", *shape)


def encode(spec: ObservationSpec, observations: Tensor) -> Tensor:
    """Return a batch of observations (N, *shape) as float32 (N, size) for a dense layer.

    Boxes are flattened, pixels scaled to 0..1, discrete values one-hot.
    """
    if spec.kind == "discrete":
        rows = observations.float().new_zeros((len(observations), spec.size))
        return rows.scatter_(1, observations.unsqueeze(1), 1.0)
    if spec.kind == "pixels":
        return observations.flatten(1).float().mul_(1 / 255)
    return observations.reshape(-1, spec.size)  # a single number has no axis to flatten
