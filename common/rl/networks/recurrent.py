"""Policy and value on a trunk and an LSTM: outputs depend on the episode so far."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from common.rl.action_spec import ActionSpec
from common.rl.networks.heads import PolicyValue, append_log_std, joint_head, log_std
from common.rl.networks.lstm import LSTM
from common.rl.networks.trunk import Trunk


class Recurrent(PolicyValue):
    """A trunk, an LSTM, then policy and value as one linear layer; the trunk's features are the LSTM's inputs."""

    def __init__(self, trunk: Trunk, units: int, action: ActionSpec, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = trunk
        self.lstm = LSTM(trunk.features, units, generator)
        self.head_weight, self.head_bias = joint_head(action, units, generator)
        self.log_std = log_std(action)
        self.action = action
        self.chunk = trunk.chunk
        self.state_size = 2 * units
        self.architecture = f"{trunk.architecture} lstm {units}{action.suffix}"

    def features(self, observations: Tensor) -> Tensor:
        features: Tensor = self.trunk(observations)
        return features

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        rows = features.view(len(valid) + 1, valid.shape[1], -1)
        return self._head(self.lstm(rows, state, valid).flatten(0, 1))

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        after = self.lstm.step(self.trunk(observations), state)
        return self._head(after[:, : self.lstm.units]), after

    def _head(self, hidden: Tensor) -> Tensor:
        return append_log_std(linear(hidden, self.head_weight, self.head_bias), self.log_std)
