"""A trained policy as one module that needs no a3cd: from observations to the environment's own actions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from common.rl.environments.actions import ActionMap, BoxMap
from common.rl.networks.plain import PlainNetwork


class PlainPolicy(nn.Module):
    """Computes each observation's best action, as the environment takes it, and the policy's numbers and value."""

    origin: Tensor
    centre: Tensor
    reach: Tensor
    low: Tensor
    high: Tensor
    squashed: Tensor

    def __init__(self, network: PlainNetwork, actions: ActionMap) -> None:
        super().__init__()
        self.network = network
        self.spec = actions.spec
        self.whole: torch.dtype | None = None
        """Element type of actions in a Box of integers; None for other actions."""
        if isinstance(actions.own, BoxMap):
            box = actions.own
            self.whole = torch.from_numpy(box.low).dtype if box.whole else None
            numbers = {"centre": box.centre, "reach": box.half, "low": box.low, "high": box.high}
            for name, array in numbers.items():
                self.register_buffer(name, torch.from_numpy(np.asarray(array, np.float32)))
            self.register_buffer("squashed", torch.from_numpy(np.asarray(box.squashed)))
        else:
            zeros = np.zeros((1, *self.spec.shape), np.int64)
            self.register_buffer("origin", torch.from_numpy(np.asarray(actions.own(zeros)[0], np.int64)))

    def forward(self, observation: Tensor, state: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return actions (N, *shape), the policy's numbers (N, width), values (N,), and the next state if there is one.

        observation, state: as `PlainNetwork` takes them.
        """
        policy, value, after = self.network(observation, state)
        return (self._best(policy), policy, value) if after is None else (self._best(policy), policy, value, after)

    def _best(self, policy: Tensor) -> Tensor:
        if self.spec.kind == "box":
            return self._into_box(policy[:, : self.spec.count].reshape(-1, *self.spec.shape))
        best = torch.stack([part.argmax(dim=1) for part in torch.split(policy, list(self.spec.sizes), dim=1)], dim=1)
        return best.reshape(-1, *self.spec.shape) + self.origin

    def _into_box(self, actions: Tensor) -> Tensor:
        """Map actions into the Box as `BoxMap` does."""
        if any(self.spec.squashed):
            actions = torch.where(self.squashed, actions.tanh(), actions)
        scaled = self.centre + self.reach * actions
        if self.whole is not None:
            scaled = scaled.round()
        clipped = torch.minimum(torch.maximum(scaled, self.low), self.high)
        return clipped if self.whole is None else clipped.to(self.whole)
