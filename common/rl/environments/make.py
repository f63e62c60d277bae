"""From the settings' [environment] section to a batch that can be stepped."""

import copy
import inspect
import os
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import FlattenObservation

from common.errors import A3cdError, EnvironmentMissingError
from common.host.modules import error_text, log_traceback
from common.rl.environments.atari import make_atari
from common.rl.environments.base import OLD_INTERFACE, Environments, close_all
from common.rl.environments.frames import camera
from common.rl.environments.names import ATARI, find_spec, is_atari, own_cure, resolve
from common.rl.environments.own import wrapped
from common.rl.environments.quiet import quiet
from common.rl.environments.sequential import SequentialEnvironments
from common.rl.environments.spaces import COMPOSED
from common.rl.environments.vector import VectorEnvironments
from common.rl.environments.wrappers import PacedEnvironments, RepeatAction, StackedEnvironments
from common.settings.sections import Environment

VECTOR_ENVS = 8
"""From this many environments, a vector implementation is faster: CartPole's takes 90 us a step, one in a loop 11."""


def make(
    section: Environment, *, num_envs: int, seed: int, render_mode: Literal["rgb_array"] | None = None
) -> Environments:
    """Make the environments of `section`, ready for `reset`. Its `auto` values are resolved, its `num_envs` is ignored.

    seed: of the actor, 0 or more.
    render_mode: "rgb_array" to call `render` later. After this call SDL opens no window in this process.
    Raises EnvironmentMissingError if the environment does not exist, cannot be made, or has unsupported spaces;
    ConfigurationError for a setting that the environment does not support.
    """
    section = resolve(section)
    spec = find_spec(section.id)
    # SDL, which pygame draws with, needs no display and no sound card unless the operator has chosen them.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    try:
        with quiet():
            environments = _batch(section, spec, num_envs, seed, render_mode)
    except EnvironmentMissingError as error:
        raise EnvironmentMissingError(f"environment {section.id}: {error}") from error
    except A3cdError:
        raise
    except DependencyNotInstalled as error:
        raise EnvironmentMissingError(f"environment {section.id} cannot be made: {own_cure(str(error))}") from error
    except Exception as error:
        if taken := _options_taken(error, section, spec):
            raise EnvironmentMissingError(f"environment.options: {taken}") from error
        log_traceback(error)
        raise EnvironmentMissingError(f"environment {section.id} cannot be made: {error_text(error)}") from error
    if section.step_seconds:
        return PacedEnvironments(environments, section.step_seconds)
    return environments


def _batch(section: Environment, spec: EnvSpec, num_envs: int, seed: int, render_mode: str | None) -> Environments:
    if is_atari(section.id):
        return make_atari(section, spec, num_envs=num_envs, seed=seed)
    usual = section.observation == "state" and section.frame_skip == 1
    usual &= not section.wrappers and not section.action_masks
    plain = usual and render_mode is None
    vector = _vector(section, spec, num_envs, seed) if plain and num_envs >= VECTOR_ENVS else None
    environments = vector or _sequential(section, spec, num_envs, seed, render_mode)
    return StackedEnvironments(environments, section.frame_stack) if section.frame_stack > 1 else environments


def _vector(section: Environment, spec: EnvSpec, num_envs: int, seed: int) -> Environments | None:
    """Return the environment's vector implementation; None without one of next-step reset and plain observations."""
    if spec.vector_entry_point is None or spec.additional_wrappers:
        return None
    limit = {"max_episode_steps": section.max_episode_steps} if section.max_episode_steps else {}
    options: dict[str, Any] = section.options | limit
    vector = gymnasium.make_vec(spec, num_envs=num_envs, vectorization_mode="vector_entry_point", **options)
    composed = isinstance(vector.single_observation_space, COMPOSED)
    if composed or vector.metadata.get("autoreset_mode") is not AutoresetMode.NEXT_STEP:
        close_all([vector], section.id)
        return None
    return VectorEnvironments(vector, name=section.id, seed=seed, bounds=section.action_bounds)


def _sequential(section: Environment, spec: EnvSpec, num_envs: int, seed: int, render_mode: str | None) -> Environments:
    frames = section.observation == "frames"
    if not frames:
        _refuse_raw_pictures(section, spec)
    spec, limit = _own_limit(spec, section)

    def make_one(number: int) -> gymnasium.Env[Any, Any]:
        mode = "rgb_array" if frames else render_mode if number == 0 else None
        options: dict[str, Any] = section.options | ({"render_mode": mode} if mode else {})
        environment = gymnasium.make(spec, disable_env_checker=True, **options)
        _refuse_old_interface(environment.unwrapped)
        environment = wrapped(environment, section.wrappers, section.wrapper_options)
        if section.frame_skip > 1:
            environment = RepeatAction(environment, section.frame_skip)
        if isinstance(environment.observation_space, COMPOSED) and not frames:
            environment = FlattenObservation(environment)
        return environment

    environments = [make_one(0)]
    if frames and "rgb_array" not in environments[0].metadata.get("render_modes", ()):
        close_all(environments, section.id)
        raise EnvironmentMissingError("it draws no pictures; use observation = 'state'")
    environments += [make_one(number) for number in range(1, num_envs)]
    return SequentialEnvironments(
        environments,
        name=section.id,
        seed=seed,
        frames_per_step=section.frame_skip,
        limit=limit,
        camera=camera(environments[0], section.frame_size, (section.crop_top, section.crop_bottom)) if frames else None,
        bounds=section.action_bounds,
        masks=section.action_masks,
    )


def _options_taken(error: Exception, section: Environment, spec: EnvSpec) -> str:
    """Return which options the environment does not take, and which it does; empty if that was not the error."""
    if not isinstance(error, TypeError) or "unexpected keyword argument" not in str(error) or is_atari(section.id):
        return ""
    entry = spec.entry_point
    creator: Any = load_env_creator(entry) if isinstance(entry, str) else entry
    parameters = inspect.signature(creator).parameters.values()
    known = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    wrong = sorted(section.options.keys() - known)
    if not wrong:
        return ""
    takes = ", ".join(name for name in known if name != "render_mode") or "none"
    return f"{section.id} takes no {', '.join(wrong)}, but {takes}"


def _refuse_raw_pictures(section: Environment, spec: EnvSpec) -> None:
    """Raise EnvironmentMissingError for an ALE game whose id does not begin with ALE/.

    It gives the whole screen in colour, from which no network here learns.
    """
    kind = section.options.get("obs_type", spec.kwargs.get("obs_type", "rgb"))
    if not str(spec.entry_point).startswith("ale_py") or kind == "ram":
        return
    game = spec.kwargs.get("game")
    same = [name for name, one in gymnasium.registry.items() if name.startswith(ATARI) and one.kwargs["game"] == game]
    raise EnvironmentMissingError(
        "it gives the whole screen, raw; "
        f"{' or '.join(same) or 'its id with ALE/'} is the same game with grey 84x84 pictures, stacked, as A3C saw them"
    )


def _refuse_old_interface(environment: gymnasium.Env[Any, Any]) -> None:
    """Raise EnvironmentMissingError for a `reset` of Gym before 0.26; an old `step` fails when it is called."""
    try:
        parameters = inspect.signature(environment.reset).parameters.values()
    except (TypeError, ValueError):  # a `reset` written in C
        return
    if not any(one.name == "seed" or one.kind is one.VAR_KEYWORD for one in parameters):
        raise EnvironmentMissingError(OLD_INTERFACE)


def _own_limit(spec: EnvSpec, section: Environment) -> tuple[EnvSpec, int]:
    """Return the registration to make environments from, and the time limit that the batch itself applies; 0: none.

    The batch counts steps of the agent. Gymnasium's TimeLimit, which takes a microsecond a step, stays only where it
    counts other steps (under repeated actions and under wrappers of the registration itself, unless the section sets a
    limit), and, if actions are not repeated, under wrappers of the section, which may ask for it.
    """
    spec = copy.deepcopy(spec)
    spec.order_enforce = False
    limit = section.max_episode_steps
    if section.wrappers and section.frame_skip == 1:
        spec.max_episode_steps = limit or spec.max_episode_steps
        return spec, 0
    if not limit and section.frame_skip == 1 and not spec.additional_wrappers:
        limit = spec.max_episode_steps or 0
    if limit:
        spec.max_episode_steps = None
    return spec, limit
