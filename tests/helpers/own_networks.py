"""User-defined networks, which tests name as `tests.helpers.own_networks:Class`: good ones, and faulty ones."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor, nn

from common.rl.observation_spec import ObservationSpec

not_a_class = 3


class Small(nn.Module):
    """A good network for any float observation."""

    units = 8

    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__()
        self.trunk: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(observation.size, self.units), nn.Tanh())
        self.policy = nn.Linear(self.units, actions)
        self.value = nn.Linear(self.units, 1)

    def forward(self, observations: Tensor) -> Any:
        features = self.trunk(observations.float())
        return self.policy(features), self.value(features).squeeze(-1)


class Elsewhere(Small):
    """Its weights are not those of torch's seed."""

    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        nn.init.constant_(self.policy.weight, random.random())


class Wider(Small):
    units = 9


class Other(Small):
    """Another network whose parameters have the same shapes."""

    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(observation.size, self.units), nn.ReLU())


class Embedded(Small):
    """A network for discrete observations."""

    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        self.trunk = nn.Embedding(observation.size, self.units)

    def forward(self, observations: Tensor) -> Any:
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)


class Lazy(Small):
    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        self.trunk = nn.Sequential(nn.Flatten(), nn.LazyLinear(self.units), nn.Tanh())


class NotAModule:
    pass


class Raises(Small):
    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        raise ValueError("no such\nobservation")


class RaisesForward(Small):
    def forward(self, observations: Tensor) -> Any:
        raise RuntimeError("shapes cannot be multiplied")


class OneTensor(Small):
    def forward(self, observations: Tensor) -> Any:
        return super().forward(observations)[0]


class Unsqueezed(Small):
    def forward(self, observations: Tensor) -> Any:
        logits, values = super().forward(observations)
        return logits, values.unsqueeze(1)


class TooFew(Small):
    def forward(self, observations: Tensor) -> Any:
        logits, values = super().forward(observations)
        return logits[:, 1:], values


class Double(Small):
    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        self.trunk.double()

    def forward(self, observations: Tensor) -> Any:
        features = self.trunk(observations.double()).float()
        return self.policy(features), self.value(features).squeeze(-1)


class DoubleOutputs(Small):
    def forward(self, observations: Tensor) -> Any:
        logits, values = super().forward(observations)
        return logits.double(), values


class Detached(Small):
    def forward(self, observations: Tensor) -> Any:
        logits, values = super().forward(observations)
        return logits, values.detach()


class InPlace(Small):
    def forward(self, observations: Tensor) -> Any:
        return super().forward(observations.mul_(2))


class Dropout(Small):
    def forward(self, observations: Tensor) -> Any:
        logits, values = super().forward(observations)
        return nn.functional.dropout(logits), values


class Counts(Small):
    """A network with a buffer that changes."""

    seen: Tensor

    def __init__(self, observation: ObservationSpec, actions: int) -> None:
        super().__init__(observation, actions)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, observations: Tensor) -> Any:
        self.seen += len(observations)
        return super().forward(observations)


class Branching(Small):
    """A network whose computation depends on its values, so that no exporter can trace it."""

    def forward(self, observations: Tensor) -> Any:
        policy, value = super().forward(observations)
        return (policy if float(policy.detach().sum()) < 1e9 else 2 * policy), value


class Bessel(Small):
    """A network with a function that ONNX does not have."""

    def forward(self, observations: Tensor) -> Any:
        policy, value = super().forward(observations)
        return policy, value + torch.special.bessel_j0(value.detach())
