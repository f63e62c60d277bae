"""Atari games, preprocessed and stepped by the Arcade Learning Environment itself."""

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from common.errors import ConfigurationError
from common.rl.environments.base import Environments
from common.rl.environments.vector import VectorEnvironments
from common.settings.sections import Environment

_LIVES = {"episodic_life", "life_loss_info"}
"""Options with which a lost life counts as the end of an episode: with the latter one, no reset would follow."""


def make_atari(section: Environment, spec: EnvSpec, *, num_envs: int, seed: int) -> Environments:
    """Make a batch of the game of `spec`: grey square frames, maximum over two, stacked; raw rewards.

    An episode is a game. section: resolved. Its options may set other arguments of ale_py's AtariVectorEnv, including
    those of the protocol (docs/environments.md). `repeat_action_probability` is by default that of the id, 0.25 for all
    v5 games (sticky actions, Machado et al. 2018, https://arxiv.org/abs/1709.06009). Up to 30 no-ops and FIRE at the
    start follow earlier work; that paper has neither.
    Raises ConfigurationError for an option that the section itself or this batch sets.
    """
    from ale_py.vector_env import AtariVectorEnv

    own = {
        "game": spec.kwargs["game"],
        "num_envs": num_envs,
        "batch_size": 0,
        "num_threads": 1,
        "autoreset_mode": "NextStep",
        "img_height": section.frame_size,
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
    return VectorEnvironments(
        vector, name=section.id, seed=seed, frames_per_step=section.frame_skip, lives=section.terminal_on_life_loss
    )
