"""`module:Name`, as an environment or a network of one's own is named: the parts of it, and importing the module.

Without gymnasium and torch, which those who only look at names do not wait for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from types import ModuleType

from common.errors import A3cdError, ConfigurationError


def module_of(named: str) -> str:
    """The module to import, `module` of `module:Name`; empty where none is named."""
    return named.rpartition(":")[0]


def bare(named: str) -> str:
    """The name without the module to import, `Name` of `module:Name`."""
    return named.rpartition(":")[2]


def check_module(named: str, allowed: Collection[str]) -> None:
    """Refuses a `module:Name`, of an environment or a network, whose module is not among those allowed here.

    It is the learner that names it, and importing runs its code.

    Raises: ConfigurationError with the option that would allow it.
    """
    module = module_of(named)
    if module and module not in allowed:
        raise ConfigurationError(
            f"the learner wants the module {module} imported here, for {named}: "
            f"start this actor (or its launcher) with --allow-module {module} if it may"
        )


def load(module: str, problem: Callable[[str], A3cdError]) -> ModuleType:
    """Imports a module that a person has named; raises what `problem` makes of the line that says why it cannot be."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise problem(
            f"no module named {error.name} in this Python's path; install its package, or set PYTHONPATH to the "
            "folder it is in (the working folder is not looked at)"
        ) from error
    except Exception as error:
        raise problem(f"importing {module} failed: {error_text(error)}") from error


def error_text(error: Exception) -> str:
    """What somebody else's code raised, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
