"""From the settings' [environment] section to a batch that can be stepped."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from common.errors import A3cdError, ConfigurationError, EnvironmentMissingError
from common.rl.environments.atari import make_atari
from common.rl.environments.base import Environments
from common.rl.environments.flappy import can_draw, flappy_frame
from common.rl.environments.frames import FRAME_SPACE, grey_frame
from common.rl.environments.names import find_spec, is_atari, resolve
from common.rl.environments.pace import PacedEnvironments
from common.rl.environments.quiet import draw_into_memory, quiet
from common.rl.environments.repeat import RepeatAction
from common.rl.environments.sequential import SequentialEnvironments
from common.rl.environments.stack import StackedEnvironments
from common.rl.environments.tolerant import Survived, TolerantEnvironment
from common.rl.environments.vector import VectorEnvironments
from common.settings.sections import Environment

VECTOR_COPIES = 8
"""From so many copies on a vector implementation is the faster: CartPole's takes 90 us a step, a copy in a loop 11."""


def make(
    section: Environment,
    *,
    copies: int,
    seed: int,
    render_mode: str | None = None,
    survived: Survived | None = None,
) -> Environments:
    """The environments of `section`, ready for `reset`.

    section: `auto` values are resolved here; its `copies` is left to the caller. seed: 0 or more; of the actor.
    render_mode: "rgb_array" to call `render` later, "human" for the environment's own window (first copy), or None.
    survived: told when a copy raises or gives a reward that is no number, which then ends that copy's episode only;
    None: `step` and `reset` raise. A vector implementation of the environment's own has no copies to end, and raises.
    Raises: EnvironmentMissingError if it does not exist, cannot be made, or has unsupported spaces;
    ConfigurationError if the section asks for what the environment cannot do.
    """
    section = resolve(section)
    spec = find_spec(section.id)
    if render_mode != "human":
        draw_into_memory()
    elif section.observation == "frames":
        raise ConfigurationError(
            f"environment {section.id} opens no window of its own when it is observed as frames; "
            "render mode rgb_array gives its pictures"
        )
    try:
        with quiet():
            environments = _batch(section, spec, copies, seed, render_mode, survived)
    except EnvironmentMissingError as error:
        raise EnvironmentMissingError(f"environment {section.id}: {error}") from error
    except A3cdError:
        raise
    except Exception as error:
        raise EnvironmentMissingError(
            f"environment {section.id} cannot be made: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if section.step_seconds:
        return PacedEnvironments(environments, section.step_seconds)
    return environments


def _batch(
    section: Environment, spec: EnvSpec, copies: int, seed: int, render_mode: str | None, survived: Survived | None
) -> Environments:
    if is_atari(section.id):
        return make_atari(section, spec, copies=copies, seed=seed)
    environments = None
    plain = section.observation == "state" and section.frame_skip == 1 and render_mode is None
    if plain and copies >= VECTOR_COPIES:
        environments = _vector(section, spec, copies=copies, seed=seed)
    if environments is None:
        environments = _sequential(section, spec, copies, seed, render_mode, survived)
    return StackedEnvironments(environments, section.frame_stack) if section.frame_stack > 1 else environments


def _vector(section: Environment, spec: EnvSpec, *, copies: int, seed: int) -> Environments | None:
    """The environment's own vector implementation, None if it has none with next-step reset."""
    if spec.vector_entry_point is None or spec.additional_wrappers:
        return None
    options: dict[str, Any] = dict(section.options)
    if section.max_episode_steps:
        options["max_episode_steps"] = section.max_episode_steps
    vector = gymnasium.make_vec(spec, num_envs=copies, vectorization_mode="vector_entry_point", **options)
    if vector.metadata.get("autoreset_mode") is not AutoresetMode.NEXT_STEP:
        vector.close()
        return None
    return VectorEnvironments(vector, name=section.id, seed=seed, bounds=section.action_bounds)


def _sequential(
    section: Environment, spec: EnvSpec, copies: int, seed: int, render_mode: str | None, survived: Survived | None
) -> Environments:
    frames = section.observation == "frames"
    spec, limit = _own_limit(spec, section)

    def make_one(number: int) -> gymnasium.Env[Any, Any]:
        mode = "rgb_array" if frames else render_mode if number == 0 else None
        options: dict[str, Any] = dict(section.options)
        if mode:
            options["render_mode"] = mode
        environment = gymnasium.make(spec, disable_env_checker=True, **options)
        if section.frame_skip > 1:
            environment = RepeatAction(environment, section.frame_skip)
        return environment if survived is None else TolerantEnvironment(environment, survived)

    environments = [make_one(0)]
    if frames and "rgb_array" not in environments[0].metadata.get("render_modes", ()):
        environments[0].close()
        raise EnvironmentMissingError("it draws no pictures; use observation = 'state'")
    environments += [make_one(number) for number in range(1, copies)]
    camera = None
    if frames:
        camera = flappy_frame if can_draw(environments[0]) else grey_frame
    return SequentialEnvironments(
        environments,
        name=section.id,
        seed=seed,
        frames_per_step=section.frame_skip,
        limit=limit,
        camera=camera,
        picture_space=FRAME_SPACE if frames else None,
        bounds=section.action_bounds,
    )


def _own_limit(spec: EnvSpec, section: Environment) -> tuple[EnvSpec, int]:
    """The registration to make copies from, and the limit in steps of the agent that the batch keeps; 0: none.

    Gymnasium's TimeLimit costs about a microsecond a step. It stays where it counts other steps than the agent's:
    under repeated actions and under wrappers of the registration itself, unless the section sets a limit.
    """
    spec = copy.deepcopy(spec)
    spec.order_enforce = False
    limit = section.max_episode_steps
    if not limit and section.frame_skip == 1 and not spec.additional_wrappers:
        limit = spec.max_episode_steps or 0
    if limit:
        spec.max_episode_steps = None
    return spec, limit
