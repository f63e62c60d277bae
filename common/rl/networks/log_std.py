"""Standard deviations that are parameters: they stand beside what the layers give for each state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.rl.action_spec import ActionSpec


def log_std(action: ActionSpec) -> nn.Parameter | None:
    """Logarithms of the standard deviations (count,), 0 at first; None where the layers give all there is."""
    return nn.Parameter(torch.zeros(action.count)) if action.outputs < action.width else None


def spread(outputs: Tensor, parameter: Tensor | None) -> Tensor:
    """Outputs (N, action.width + 1) of those of the layers (N, action.outputs + 1), in both the value last."""
    if parameter is None:
        return outputs
    return torch.cat([outputs[:, :-1], parameter.expand(len(outputs), -1), outputs[:, -1:]], dim=1)
