"""One environment of a run with gymnasium's interface, as a trained agent sees and plays it."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import msgspec
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from common.rl.environments.interface import Interface
from common.rl.environments.make import make
from common.rl.seeds import held_out_seeds
from common.settings.sections import Environment


class SingleEnvironment(gymnasium.Env[Any, Any]):
    """Repeated actions, time limits, options and pictures are as in training; observations are not stacked.

    Its episodes are not those of training, whatever the seed.
    """

    def __init__(
        self, section: Environment, interface: Interface, *, seed: int, render_mode: Literal["rgb_array"] | None
    ) -> None:
        """seed: 0 or more. Raises as `make`."""
        single = msgspec.structs.replace(section, frame_stack=1, step_seconds=0.0)
        self._environments = make(single, num_envs=1, seed=seed, render_mode=render_mode)
        self._environments.actions.bypass()
        self._interface = interface
        self._seeds = held_out_seeds("report", seed)
        self._over = True
        self.observation_space = interface.space
        self.action_space = interface.actions.space
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        """Begin an episode. seed: of this episode and those after it; None: the next episode of the previous seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._seeds = held_out_seeds("report", seed)
        observations = self._environments.reset(next(self._seeds))
        self._over = False
        return self._interface.given(observations[0]), self._interface.mask(observations[0])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As `gymnasium.Env.step`; raises ResetNeeded when the episode is over, UnavailableError when it fails."""
        if self._over:
            raise ResetNeeded("the episode is over, or has not begun: call reset()")
        observations, rewards, terminated, truncated, _ = self._environments.step(np.asarray(action)[None])
        self._over = bool(terminated[0] or truncated[0])
        given, info = self._interface.given(observations[0]), self._interface.mask(observations[0])
        return given, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> NDArray[np.uint8]:
        """Return the current picture, (height, width, 3); needs render_mode="rgb_array"."""
        return self._environments.render()

    def close(self) -> None:
        self._environments.close()
