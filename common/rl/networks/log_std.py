"""Standard deviations that are parameters instead of outputs of the layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.rl.action_spec import ActionSpec


def log_std(action: ActionSpec) -> nn.Parameter | None:
    """Log standard deviations (count,), 0 at first; None where the layers give them, or there are none."""
    return nn.Parameter(torch.zeros(action.count)) if action.outputs < action.width else None


def append_log_std(outputs: Tensor, parameter: Tensor | None) -> Tensor:
    """Append the parameter to the policy's numbers: (N, outputs + 1) becomes (N, width + 1); the value stays last."""
    if parameter is None:
        return outputs
    return torch.cat([outputs[:, :-1], parameter.expand(len(outputs), -1), outputs[:, -1:]], dim=1)
