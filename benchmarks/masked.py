"""CartPole without velocities: an environment that requires memory, `benchmarks.masked:MaskedCartPole-v0`.

Only the cart's position and the pole's angle are observed; their velocities show only in how these change.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

SHOWN = (0, 2)
"""Indices of what is shown of CartPole's position, velocity, angle, angular velocity."""
STEPS = 500


class MaskedCartPole(gymnasium.ObservationWrapper[NDArray[np.float32], Any, Any]):
    """A single environment."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(CartPoleEnv(**keywords))
        self.observation_space = _shown(self.env.observation_space)

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return observation[list(SHOWN)]


class MaskedCartPoleVector(CartPoleVectorEnv):
    """A batch of environments, stepped as arrays."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.single_observation_space = _shown(self.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, **keywords: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        observations, information = super().reset(**keywords)
        return observations[:, SHOWN], information

    def step(self, action: Any) -> tuple[Any, ...]:
        observations, *others = super().step(action)
        return observations[:, SHOWN], *others


def _shown(space: gymnasium.Space[Any]) -> Any:
    assert isinstance(space, Box)
    return Box(space.low[list(SHOWN)], space.high[list(SHOWN)], dtype=np.float32)


gymnasium.register(
    "MaskedCartPole-v0",
    entry_point=MaskedCartPole,
    vector_entry_point=MaskedCartPoleVector,
    max_episode_steps=STEPS,
    reward_threshold=475.0,
)
