"""The whole network: what describes a policy, and a value; here on one trunk, or on one each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from common.rl.action_spec import ActionSpec
from common.rl.networks.log_std import log_std, spread
from common.rl.networks.trunk import Trunk, orthogonal, zeros

POLICY_GAIN = 0.01
"""Nearly equal probabilities at the start."""
VALUE_GAIN = 1.0


class PolicyValue(nn.Module):
    """What describes a policy, and a state value: what acting and the algorithms know of a network."""

    action: ActionSpec
    chunk: int
    """Observations a batch best holds at most when a gradient is computed."""
    architecture: str
    """What the shapes of the parameters do not say; two networks that compute differently differ here."""
    state_size: int = 0
    """Numbers that are carried from step to step of an episode; 0: feed-forward, anything else: `Recurrent`."""

    def outputs(self, observations: Tensor) -> Tensor:
        """Return the policy's numbers and the value side by side, (N, action.width + 1).

        observations: (N, *shape).
        """
        raise NotImplementedError

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy's numbers (N, action.width) and values (N,) of observations (N, *shape)."""
        outputs = self.outputs(observations)
        return outputs[:, :-1], outputs[:, -1]

    @torch.inference_mode()
    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """`forward` without anything kept for a gradient."""
        return self.forward(observations)


class Heads(PolicyValue):
    """Policy and value as linear layers on trunks.

    On one trunk both heads are one linear layer of action.outputs + 1 outputs, the value last: half the calls.
    """

    def __init__(self, trunks: Sequence[Trunk], action: ActionSpec, generator: torch.Generator) -> None:
        """Join one trunk (shared) or two (policy, value)."""
        super().__init__()
        self.trunks = nn.ModuleList(trunks)
        self.action = action
        self.chunk = trunks[0].chunk
        self.shared = len(trunks) == 1
        self.architecture = f"{trunks[0].architecture} {'shared' if self.shared else 'separate'}"
        if action.kind != "discrete":
            self.architecture += f" {action.text}"
        self.head_weight, self.head_bias = joint_head(action, trunks[0].features, generator)
        self.log_std = log_std(action)
        self._trunks = tuple(trunks)

    def outputs(self, observations: Tensor) -> Tensor:
        """As `PolicyValue.outputs`."""
        weight, bias = self.head_weight, self.head_bias
        if self.shared:
            return spread(linear(self._trunks[0](observations), weight, bias), self.log_std)
        policy, value = self._trunks
        n = self.action.outputs
        numbers = linear(policy(observations), weight[:n], bias[:n])
        return spread(torch.cat([numbers, linear(value(observations), weight[n:], bias[n:])], dim=1), self.log_std)


def joint_head(action: ActionSpec, features: int, generator: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight (action.outputs + 1, features) and bias of policy and value as one layer, the value last."""
    policy = orthogonal(action.outputs, features, gain=POLICY_GAIN, generator=generator)
    value = orthogonal(1, features, gain=VALUE_GAIN, generator=generator)
    return nn.Parameter(torch.cat([policy, value]).detach()), zeros(action.outputs + 1)
