"""Atari games, preprocessed and stepped by the Arcade Learning Environment itself."""

from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv, VectorObservationWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.environments.base import Environments
from common.rl.environments.vector import VectorEnvironments
from common.settings.sections import Environment

_LIVES = {"episodic_life", "life_loss_info"}
"""Options with which a lost life counts as the end of an episode: with the latter one, no reset would follow."""


class Cropped(VectorObservationWrapper[Any, Any, Any]):
    """Only some rows of the pictures (B, stack, height, width)."""

    def __init__(self, vector: VectorEnv[Any, Any, Any], rows: slice) -> None:
        super().__init__(vector)
        self._rows = rows
        whole: Any = vector.single_observation_space
        self.single_observation_space = Box(whole.low[:, rows], whole.high[:, rows], dtype=np.uint8)
        self.observation_space = batch_space(self.single_observation_space, vector.num_envs)

    def observations(self, observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return observations[:, :, self._rows]


def make_atari(section: Environment, spec: EnvSpec, *, num_envs: int, seed: int) -> Environments:
    """Make a batch of the game of `spec`: grey square frames, cropped, maximum over two, stacked; raw rewards.

    An episode is a game. section: resolved. Its options may set other arguments of ale_py's AtariVectorEnv, including
    those of the protocol (docs/environments.md). `repeat_action_probability` is by default that of the id, 0.25 for all
    v5 games (sticky actions, Machado et al. 2018, https://arxiv.org/abs/1709.06009). Up to 30 no-ops and FIRE at the
    start follow earlier work; that paper has neither.
    Raises ConfigurationError for an option that the section itself or this batch sets.
    """
    from ale_py.vector_env import AtariVectorEnv

    height, rows = kept_rows(section)
    own = {
        "game": spec.kwargs["game"],
        "num_envs": num_envs,
        "batch_size": 0,
        "num_threads": 1,
        "autoreset_mode": "NextStep",
        "img_height": height,
        "img_width": section.frame_size,
        "grayscale": True,
        "continuous": False,
        "reward_clipping": False,
        "episodic_life": False,
        "frameskip": section.frame_skip,
        "stack_num": section.frame_stack,
        "max_num_frames_per_episode": (
            section.max_episode_steps * section.frame_skip or spec.kwargs["max_num_frames_per_episode"]
        ),
    }
    if lives := sorted(_LIVES & section.options.keys()):
        raise ConfigurationError(
            f"environment.options: {', '.join(lives)} cannot be set; environment.terminal_on_life_loss can"
        )
    taken = sorted(own.keys() & section.options.keys())
    if taken:
        raise ConfigurationError(
            f"environment.options: {', '.join(taken)} cannot be set; environment.frame_size, "
            "frame_skip, frame_stack and max_episode_steps can"
        )
    usual = {
        "repeat_action_probability": spec.kwargs["repeat_action_probability"],
        "full_action_space": False,
        "noop_max": 30,
        "use_fire_reset": True,
        "maxpool": True,
    }
    vector: VectorEnv = AtariVectorEnv(**(usual | section.options | own))
    if height > section.frame_size:
        vector = Cropped(vector, rows)
    return VectorEnvironments(
        vector, name=section.id, seed=seed, frames_per_step=section.frame_skip, lives=section.terminal_on_life_loss
    )


def kept_rows(section: Environment) -> tuple[int, slice]:
    """Return the height to which a whole screen is shrunk, and the rows of it that are left."""
    height = round(section.frame_size / (1 - section.crop_top - section.crop_bottom))
    top = min(round(section.crop_top * height), height - section.frame_size)
    return height, slice(top, top + section.frame_size)
