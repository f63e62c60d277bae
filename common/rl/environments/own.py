"""Environments and wrappers of the user: classes in a module that the settings name.

Only classes derived from gymnasium's are accepted, never another function of such a module: a learner chooses the name.
"""

from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from common.errors import EnvironmentMissingError
from common.host.modules import bare, error_text, load, log_traceback, missing, module_of
from common.rl.environments.quiet import quiet


def imported(module: str, what: str) -> ModuleType:
    """Import and return the module; raises EnvironmentMissingError, whose text begins with `what`."""
    with quiet():
        return load(module, lambda why: EnvironmentMissingError(f"{what}: {why}"))


def class_spec(module: ModuleType, name: str) -> EnvSpec | None:
    """Return the spec with which the class `name` would be registered; None if the module has no such environment."""
    found = vars(module).get(name)
    return EnvSpec(name, entry_point=found) if _is_one(found, gymnasium.Env) else None


def environments(module: ModuleType) -> list[str]:
    """Return the classes of environments that a module defines, and the ids that it registers."""
    own = module.__name__
    classes = [name for name, one in vars(module).items() if _is_one(one, gymnasium.Env) and one.__module__ == own]
    ids = []
    for identifier, spec in gymnasium.registry.items():
        entry: Any = spec.entry_point
        if (entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")) == own:
            ids.append(identifier)
    return classes + ids


def wrapped(
    environment: gymnasium.Env[Any, Any], wrappers: list[str], options: dict[str, dict[str, Any]]
) -> gymnasium.Env[Any, Any]:
    """Return the environment in wrappers, each a `module:Class`, the first one innermost.

    options: keyword arguments by class. Raises EnvironmentMissingError for a wrapper that does not exist or cannot be
    made.
    """
    for named in wrappers:
        what = f"environment.wrappers: {named}"
        module = imported(module_of(named), what)
        kind: Any = getattr(module, bare(named), None)
        if not _is_one(kind, gymnasium.Wrapper):
            there = [name for name, one in vars(module).items() if _is_one(one, gymnasium.Wrapper)]
            raise EnvironmentMissingError(f"{what}: {missing(module, bare(named), 'gymnasium.Wrapper', there)}")
        try:
            environment = kind(environment, **options.get(bare(named), {}))
        except Exception as error:
            log_traceback(error)
            raise EnvironmentMissingError(f"{what}: {error_text(error)}") from error
    return environment


def _is_one(found: Any, kind: type) -> bool:
    return isinstance(found, type) and issubclass(found, kind)
