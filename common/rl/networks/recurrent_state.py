"""The state of a network in each environment of a batch. This is where it becomes 0 after an episode."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class RecurrentState:
    """Carries a network's state from step to step; a feed-forward network's has no numbers."""

    def __init__(self, num_envs: int, state_size: int) -> None:
        self.value = torch.zeros(num_envs, state_size)
        """(B, state_size): for `PolicyValue.step`, which gives the next one; never changed in place."""

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """Set the state to 0 where `valid` (B,), whether the step counted, is False: the next observation begins an
        episode."""
        if self.value.shape[1] and not valid.all():
            self.value = torch.where(torch.from_numpy(valid).unsqueeze(1), self.value, 0.0)

    def clear(self) -> None:
        """Every environment begins an episode."""
        self.value = torch.zeros(self.value.shape)

    def first(self) -> Tensor | None:
        """A copy for the rollout that begins now; None of a feed-forward network."""
        return self.value.clone() if self.value.shape[1] else None
