"""Policy and value on a trunk and an LSTM: outputs depend on the episode so far."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from common.rl.action_spec import ActionSpec
from common.rl.networks.heads import PolicyValue, joint_head
from common.rl.networks.log_std import log_std, spread
from common.rl.networks.lstm import LSTM
from common.rl.networks.trunk import Trunk


class Recurrent(PolicyValue):
    """A trunk, an LSTM, then policy and value as one linear layer of action.width + 1 outputs, the value last."""

    def __init__(self, trunk: Trunk, units: int, action: ActionSpec, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = trunk
        self.lstm = LSTM(trunk.features, units, generator)
        self.head_weight, self.head_bias = joint_head(action, units, generator)
        self.log_std = log_std(action)
        self.action = action
        self.chunk = trunk.chunk
        self.state_size = 2 * units
        self.architecture = f"{trunk.architecture} lstm {units}"
        if action.kind != "discrete":
            self.architecture += f" {action.text}"

    def outputs(self, observations: Tensor) -> Tensor:  # noqa: ARG002
        """Raises TypeError: without its state it has none."""
        raise TypeError("a recurrent network's outputs depend on its state: use step, or features and unroll")

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (B, action.width + 1) and the next state (B, state_size), a new tensor.

        observations: (B, *shape); state: (B, state_size), zeros where an episode starts.
        """
        after = self.lstm.step(self.trunk(observations), state)
        return self._head(after[:, : self.lstm.units]), after

    def features(self, observations: Tensor) -> Tensor:
        """Return what the LSTM is given, (N, F), of observations (N, *shape): in any batches."""
        features: Tensor = self.trunk(observations)
        return features

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        """Return outputs ((T + 1) B, action.width + 1) over the steps of a rollout, as `step` gave them one by one.

        Args:
            features: ((T + 1) B, F), time first.
            state: (B, state_size) before the first step; nothing is learnt through it.
            valid: (T, B) bool; the state after a dummy step is 0, since the next observation begins an episode.
        """
        rows = features.view(len(valid) + 1, valid.shape[1], -1)
        return self._head(self.lstm(rows, state, valid).flatten(0, 1))

    def _head(self, hidden: Tensor) -> Tensor:
        return spread(linear(hidden, self.head_weight, self.head_bias), self.log_std)
