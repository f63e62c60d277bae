"""The interface of a policy and value network, and the feed-forward one: on one shared trunk, or on one each."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from common.rl.action_spec import ActionSpec
from common.rl.dense.layout import heads
from common.rl.networks.trunk import Trunk, orthogonal, zeros

POLICY_GAIN = 0.01
"""So small that the probabilities are nearly equal at the start."""
VALUE_GAIN = 1.0


class PolicyValue(nn.Module):
    """A network of policy and state value. Outputs are (N, action.width + 1): the policy's numbers, and last the value.

    `features` treats each observation by itself; its results are the outputs of a feed-forward network. `unroll`
    goes through time in a recurrent one.
    """

    action: ActionSpec
    chunk: int
    """Largest number of observations for which a gradient is computed at once."""
    architecture: str
    """Text that describes what the shapes of the parameters do not: networks that compute differently differ in it."""
    state_size: int = 0
    """Numbers carried from step to step of an episode; 0: feed-forward."""

    def features(self, observations: Tensor) -> Tensor:
        """Return (N, F) of observations (N, *shape), in batches of any size."""
        raise NotImplementedError

    def unroll(self, features: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        """Return outputs ((T + 1) B, action.width + 1) of a rollout's features ((T + 1) B, F); recurrent networks only.

        state: (B, state_size) before the first step; a constant. valid: (T, B) bool; after a dummy step the state is 0.
        """
        raise NotImplementedError

    @torch.inference_mode()
    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (B, action.width + 1) and the next state, for observations (B, *shape), without a graph.

        state: (B, state_size), zeros where an episode starts.
        """
        return self.features(observations), state

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy's numbers (N, action.width) and values (N,) of a feed-forward network."""
        outputs = self.features(observations)
        return outputs[:, :-1], outputs[:, -1]


class Heads(PolicyValue):
    """Policy and value as linear layers on trunks; on one shared trunk they are one layer, which halves the calls."""

    def __init__(self, trunks: Sequence[Trunk], action: ActionSpec, generator: torch.Generator) -> None:
        """trunks: one (shared), or two (policy, value)."""
        super().__init__()
        self.trunks = nn.ModuleList(trunks)
        self.action = action
        self.chunk = trunks[0].chunk
        self.shared = len(trunks) == 1
        self.architecture = heads(trunks[0].architecture, self.shared, action)
        self.head_weight, self.head_bias = joint_head(action, trunks[0].features, generator)
        self.log_std = log_std(action)
        self._trunks = tuple(trunks)

    def features(self, observations: Tensor) -> Tensor:
        weight, bias = self.head_weight, self.head_bias
        if self.shared:
            return append_log_std(linear(self._trunks[0](observations), weight, bias), self.log_std)
        policy, value = self._trunks
        n = self.action.outputs
        numbers = linear(policy(observations), weight[:n], bias[:n])
        values = linear(value(observations), weight[n:], bias[n:])
        return append_log_std(torch.cat([numbers, values], dim=1), self.log_std)


def joint_head(action: ActionSpec, features: int, generator: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Return weight (action.outputs + 1, features) and bias of policy and value as one layer, the value last."""
    policy = orthogonal(action.outputs, features, gain=POLICY_GAIN, generator=generator)
    value = orthogonal(1, features, gain=VALUE_GAIN, generator=generator)
    return nn.Parameter(torch.cat([policy, value]).detach()), zeros(action.outputs + 1)


def log_std(action: ActionSpec) -> nn.Parameter | None:
    """Return log standard deviations (count,), 0 at first; None if layers compute them, or actions have none."""
    return nn.Parameter(torch.zeros(action.count)) if action.outputs < action.width else None


def append_log_std(outputs: Tensor, parameter: Tensor | None) -> Tensor:
    """Return (N, action.width + 1) from (N, action.outputs + 1): insert the parameter, if any, before the value."""
    if parameter is None:
        return outputs
    return torch.cat([outputs[:, :-1], parameter.expand(outputs.shape[0], -1), outputs[:, -1:]], dim=1)
