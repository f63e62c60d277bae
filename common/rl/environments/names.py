"""From an environment's id to its package, its registration, and its default settings."""

import difflib
import importlib.util
import re

import gymnasium
import msgspec
from gymnasium.envs.registration import EnvSpec

from common.errors import ConfigurationError, EnvironmentMissingError
from common.host.modules import bare, in_files, missing, module_of
from common.rl.environments.own import class_spec, environments, imported
from common.settings.sections import Environment, Scalar, Settings

ATARI = "ALE/"
ATARI_SKIP = 4
FRAME_STACK = 4
MOST_CROPPED = 0.9
"""Largest share of a picture's height that may be cut off."""

PACKAGES = {"FlappyBird-": ("flappy_bird_gymnasium", "flappy"), ATARI: ("ale_py", "atari")}
"""Packages whose ids need no `module:` in front: prefix of the ids, module, and the extra of a3cd that installs it."""

EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "atari": "atari", "classic_control": "window", "toy_text": "window"}
"""Extras of gymnasium, which are also its folders of environments, and the extra of a3cd that installs the same."""
_CURE = re.compile(r"""`?pip install ["']?gymnasium\[([\w-]+)\]["'`]*""")

OPTIONS: dict[str, dict[str, Scalar]] = {"FlappyBird-v0": {"use_lidar": False}}
"""Default options that differ from the environment's own: 12 features of bird and pipes are 160 times as fast as 180
rays."""


def is_atari(identifier: str) -> bool:
    """Return whether it is a game of the Arcade Learning Environment."""
    return bare(identifier).startswith(ATARI)


def draws_actions(settings: Settings) -> bool:
    """Return whether an agent of this run is evaluated with drawn actions: evaluation.sampled, resolved."""
    sampled = settings.evaluation.sampled
    return is_atari(settings.environment.id) if sampled == "auto" else sampled


def resolve(section: Environment) -> Environment:
    """Return the section with `auto` and 0 replaced by the values for its environment; max_episode_steps = 0 stays.

    Raises ConfigurationError for the state, wrappers or action masks of an ALE game, for the lives of another
    environment, and for pictures of which too little is left.
    """
    atari = is_atari(section.id)
    if atari and section.observation == "state":
        raise ConfigurationError(f"environment.observation: {section.id} gives frames only; use 'frames' or 'auto'")
    if section.terminal_on_life_loss and not atari:
        raise ConfigurationError(f"environment.terminal_on_life_loss: ALE games have lives, {section.id} has none")
    if section.wrappers and atari:
        raise ConfigurationError("environment.wrappers: ALE games take none, since they are stepped many at a time")
    if section.action_masks and atari:
        raise ConfigurationError(f"environment.action_masks: {section.id} does not say which actions are allowed")
    if (cut := section.crop_top + section.crop_bottom) > MOST_CROPPED:
        raise ConfigurationError(
            f"environment.crop_top + environment.crop_bottom = {cut:g}: must be at most {MOST_CROPPED:g} of a picture"
        )
    observation = section.observation
    if observation == "auto":
        observation = "frames" if atari else "state"
    return msgspec.structs.replace(
        section,
        observation=observation,
        frame_skip=section.frame_skip or (ATARI_SKIP if atari else 1),
        frame_stack=section.frame_stack or (FRAME_STACK if observation == "frames" else 1),
        options={**OPTIONS.get(bare(section.id), {}), **section.options},
    )


def longest_episode(section: Environment) -> int:
    """Return the most steps of the agent in an episode of the resolved section; 0 if that is not known.

    Raises EnvironmentMissingError as `find_spec`.
    """
    spec = find_spec(section.id)
    if section.wrappers and section.frame_skip == 1:
        return 0  # the limit counts steps beneath the wrappers, and the agent may take several for one of those
    if section.max_episode_steps:
        return section.max_episode_steps
    if is_atari(section.id):
        return -(-int(spec.kwargs["max_num_frames_per_episode"]) // section.frame_skip) + 1
    if section.wrappers or spec.additional_wrappers:
        return 0
    return -(-(spec.max_episode_steps or 0) // section.frame_skip)


def find_spec(identifier: str) -> EnvSpec:
    """Import the module of an id and return its registration; raises EnvironmentMissingError if there is none."""
    module, name = module_of(identifier), bare(identifier)
    own = imported(module, f"environment {identifier}") if module else None
    for prefix, (package, extra) in PACKAGES.items():
        if name.startswith(prefix) and not module:
            if not importlib.util.find_spec(package):
                raise EnvironmentMissingError(
                    f"environment {name} needs the package {package}, which is not installed: "
                    f"pip install 'a3cd[{extra}]'"
                )
            imported(package, f"environment {identifier}")
    spec = gymnasium.registry.get(name)
    if spec is None and own is not None:
        spec = class_spec(own, name)
    if spec is None:
        there = [] if own is None else environments(own)
        alike = [] if there else _alike(name)
        if own is not None and not alike:
            raise EnvironmentMissingError(f"environment {identifier}: {missing(own, name, 'environment', there)}")
        hint = f"did you mean {' or '.join(alike)}?" if alike else in_files(name)
        hint = hint or "the module it is in goes before it: module:Id-v0, or the file: my_envs.py:Class"
        raise EnvironmentMissingError(f"environment {name} does not exist; {hint}")
    return spec


def _alike(name: str) -> list[str]:
    """Return known ids like `name`; for an ALE game only the preprocessed one."""
    ids = known()
    game = ATARI + re.sub(r"(NoFrameskip|Deterministic|-ram|-v\d+)+$", "", name.removeprefix(ATARI)) + "-v5"
    if game in ids:
        return [game]
    usual = [one for one in ids if one.startswith(ATARI) == name.startswith(ATARI) and not _raw(one)]
    return difflib.get_close_matches(name, usual, n=3, cutoff=0.75)


def _raw(identifier: str) -> bool:
    """Return whether it is an ALE game whose id does not begin with ALE/: such ids give the whole screen."""
    entry = str(gymnasium.registry[identifier].entry_point)
    return entry.startswith("ale_py") and not identifier.startswith(ATARI)


def extra(section: Environment) -> str:
    """Return the extra of a3cd that installs the environment; empty if none is needed, or none is known."""
    module, name = module_of(section.id).partition(".")[0], bare(section.id)
    for prefix, (package, one) in PACKAGES.items():
        if module == package or (not module and name.startswith(prefix)):
            return one
    spec = None if module else gymnasium.registry.get(name)
    entry = "" if spec is None else str(spec.entry_point)
    folder = entry.removeprefix("gymnasium.envs.").partition(".")[0] if entry.startswith("gymnasium.envs.") else ""
    found = EXTRAS.get(folder, "")
    return found if found != "window" or section.observation == "frames" else ""


def own_cure(text: str) -> str:
    """Return the text of an error with a3cd's extra in place of gymnasium's, since their pins may differ."""

    def cure(match: re.Match[str]) -> str:
        one = EXTRAS.get(match[1].replace("-", "_"))
        return f"pip install 'a3cd[{one}]'" if one else match[0]

    return _CURE.sub(cure, text)


def known() -> list[str]:
    """Return the ids registered in this process and by the packages above, sorted."""
    for prefix, (package, _) in PACKAGES.items():
        if importlib.util.find_spec(package):
            imported(package, f"environment {prefix}")
    return sorted(gymnasium.registry)
