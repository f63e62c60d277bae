"""A network at play on several copies of an environment, and what it remembers of the episode in each."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.networks.heads import PolicyValue
from common.rl.networks.recurrent import Recurrent


class RecurrentState:
    """Carries the state of a recurrent network from step to step; a feed-forward one acts as without it."""

    def __init__(self, network: PolicyValue, copies: int) -> None:
        """Every copy is at the start of an episode."""
        self._network = network
        self._recurrent = network if isinstance(network, Recurrent) else None
        self._state = torch.zeros(copies, network.state_size)

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """As `PolicyValue.act`; remembers."""
        if self._recurrent is None:
            return self._network.act(observations)
        outputs, self._state = self._recurrent.step(observations, self._state)
        return outputs[:, :-1], outputs[:, -1]

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """Forgets the episodes of the copies where `valid` (B,) is False: the next observation begins another one.

        To be called with `EpisodeTracker.valid` as it was before the step: what resets a copy is its dummy step.
        """
        if self._recurrent is not None and not valid.all():
            self._state = self._state.clone()
            self._state[torch.from_numpy(~valid)] = 0.0

    def clear(self) -> None:
        """Forgets all: every copy is at the start of an episode."""
        self._state = torch.zeros_like(self._state)

    def state(self) -> Tensor | None:
        """A copy of (B, state_size); None of a feed-forward network."""
        return None if self._recurrent is None else self._state.clone()
