"""A network in PyTorch's own layers, names and shapes, for use outside of a3cd; it is as slow as these layers."""

from __future__ import annotations

import copy

import msgspec
import torch
from torch import Tensor, nn

from common.rl.named_tensors import NamedTensor, plain_tensor, to_tensors
from common.rl.networks.around import peel
from common.rl.networks.heads import Heads, PolicyValue, append_log_std
from common.rl.networks.masking import mark, split
from common.rl.networks.model import TorchModel
from common.rl.networks.normalization import Normalized
from common.rl.networks.own import Own
from common.rl.networks.plain_layers import Normalize
from common.rl.networks.recurrent import Recurrent
from common.rl.networks.trunk import Trunk
from common.rl.normalization import MAX_NORMALIZED
from common.rl.observation_spec import ObservationSpec

_GATES = {"weight_input": "weight_ih", "weight_hidden": "weight_hh", "bias": "bias_ih"}


class PlainNetwork(nn.Module):
    """Computes policy and value from observations in the form that a3cd's networks take.

    Its parts are normalize, trunk (or policy_trunk and value_trunk), lstm, policy, value and log_std, each if the
    network has it. A user's own network is `own`, in place of trunks and heads.
    """

    trunk: nn.Module
    policy_trunk: nn.Module
    value_trunk: nn.Module

    def __init__(self, model: TorchModel, observation: ObservationSpec) -> None:
        """Copy the model's network, which takes observations of this kind."""
        super().__init__()
        around, network = peel(model.network)
        self.state_size = network.state_size
        self.masked = observation.seen
        """The spec of what the layers see, if observations end with an action mask; else None."""
        self.normalize: Normalize | None = None
        for one in around:
            if isinstance(one, Normalized):
                mean, scale = one.statistics.shared.view(2, *observation.bare.shape)
                self.normalize = Normalize(mean, scale, MAX_NORMALIZED)
        action = network.action
        self.log_std = nn.Parameter(torch.zeros(action.count)) if action.outputs < action.width else None
        self.own: nn.Module | None = None
        self.lstm: nn.LSTMCell | None = None
        if isinstance(network, Own):
            self.own = copy.deepcopy(network.own)
        else:
            trunks = _trunks(network)
            for name, trunk in trunks.items():
                self.add_module(name, trunk.plain())
            self.shared = len(trunks) == 1
            features = next(iter(trunks.values())).features
            if isinstance(network, Recurrent):
                self.lstm = nn.LSTMCell(features, network.lstm.units)
                nn.init.zeros_(self.lstm.bias_hh)  # PyTorch's LSTM has two biases, a3cd's has one
                features = network.lstm.units
            self.policy, self.value = nn.Linear(features, action.outputs), nn.Linear(features, 1)
        arrays = to_tensors(model.vector, named_tensors(model))
        lacking = self.load_state_dict({name: torch.from_numpy(one) for name, one in arrays.items()}, strict=False)
        assert not lacking.unexpected_keys, lacking

    def forward(self, observation: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the policy's numbers (N, action.width), values (N,), and the next state.

        observation: (N, *shape). state: (N, state_size) of a recurrent network, zeros where an episode begins.
        """
        x, mask = (observation, None) if self.masked is None else split(self.masked, observation)
        x = x if self.normalize is None else self.normalize(x)
        if self.own is not None:
            policy, value = self.own(x)
        else:
            inputs = [self.trunk(x)] * 2 if self.shared else [self.policy_trunk(x), self.value_trunk(x)]
            if self.lstm is not None:
                assert state is not None
                hidden, cell = self.lstm(inputs[0], tuple(state.chunk(2, dim=1)))
                inputs, state = [hidden] * 2, torch.cat([hidden, cell], dim=1)
            policy, value = self.policy(inputs[0]), self.value(inputs[1]).squeeze(1)
        outputs = append_log_std(torch.cat([policy, value.unsqueeze(1)], dim=1), self.log_std)
        outputs = outputs if mask is None else mark(outputs, mask)
        return outputs[:, :-1], outputs[:, -1], state


def named_tensors(model: TorchModel) -> list[NamedTensor]:
    """Return a model's parameters as tensors of its `PlainNetwork`, in the order of the flat vector."""
    around, network = peel(model.network)
    found = []
    for name, shape in model.flat.layout:
        found += _named(network, name.removeprefix(len(around) * "inner."), shape)
    return found


def _named(network: PolicyValue, name: str, shape: tuple[int, ...]) -> list[NamedTensor]:
    head = {"head_weight": "weight", "head_bias": "bias"}.get(name)
    if head is not None:
        rows = network.action.outputs
        return [
            plain_tensor(f"policy.{head}", rows, *shape[1:]),
            plain_tensor(f"value.{head}", shape[0] - rows, *shape[1:]),
        ]
    if name.startswith("lstm."):
        return [plain_tensor(f"lstm.{_GATES[name.removeprefix('lstm.')]}", *shape)]
    if name.startswith("trunk"):
        *path, parameter = name.split(".")
        own, trunk = list(_trunks(network).items())[int(path[-1]) if len(path) > 1 else 0]
        one = trunk.named(parameter, shape)
        return [msgspec.structs.replace(one, name=f"{own}.{one.name}")]
    return [plain_tensor(name, *shape)]


def _trunks(network: PolicyValue) -> dict[str, Trunk]:
    assert isinstance(network, Heads | Recurrent)
    trunks = [network.trunk] if isinstance(network, Recurrent) else network._trunks
    return dict(zip(["trunk"] if len(trunks) == 1 else ["policy_trunk", "value_trunk"], trunks, strict=True))
