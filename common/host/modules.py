"""Names such as `module:Name` for environments and networks of users: their parts, importing the module, its errors.

Without gymnasium and torch, which take seconds to load.
"""

import importlib
import logging
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType

from common.errors import A3cdError, ConfigurationError

ROOMS = ("common", "actor", "learner", "deploy")
"""The packages of a3cd; a file of the user's with such a name is never imported."""
MOST_TRACEBACKS = 16
_log = logging.getLogger(__name__)
_logged: set[tuple[str, str, int]] = set()


def module_of(named: str) -> str:
    """`module` of `module:Name`; empty if there is none."""
    return named.rpartition(":")[0]


def bare(named: str) -> str:
    """`Name` of `module:Name`."""
    return named.rpartition(":")[2]


def check_module(named: str, allowed: Collection[str]) -> None:
    """Raises ConfigurationError if the module of `module:Name` is not allowed here.

    The learner chooses the module, and importing it runs its code on this host.
    """
    module = module_of(named)
    if module and module not in allowed:
        raise ConfigurationError(
            f"the learner wants the module {module} imported here, for {named}: "
            f"start this actor (or its launcher) with --allow-module {module} if it may"
        )


def load(module: str, problem: Callable[[str], A3cdError]) -> ModuleType:
    """Import a module; raises `problem(reason)` if that fails."""
    if file := _hidden(module):
        raise problem(file)
    try:
        return importlib.import_module(module)
    except (ImportError, AttributeError) as error:
        named = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", "")
        if file := _hidden(named or ""):
            raise problem(file) from error
        if not isinstance(error, ModuleNotFoundError):
            log_traceback(error)
            raise problem(f"importing {module} failed: {error_text(error)}") from error
        if error.name != module.partition(".")[0]:
            log_traceback(error)
        raise problem(
            f"no module named {error.name} in this Python's path; install its package, or set PYTHONPATH to the "
            "folder it is in (the working folder is not searched)"
        ) from error
    except Exception as error:
        log_traceback(error)
        raise problem(f"importing {module} failed: {error_text(error)}") from error


def _hidden(module: str) -> str:
    """What to say of a file of the user's that would be this module, were its name not a3cd's; empty: nothing."""
    top = module.partition(".")[0]
    if top not in ROOMS:
        return ""
    own = Path(__file__).parents[2]
    for folder in map(Path, sys.path):
        for file in (folder / f"{top}.py", folder / top / "__init__.py"):
            if file.is_file() and folder.resolve() != own:
                return f"{file} cannot be imported, since {top} is the name of a part of a3cd: rename that file"
    return ""


def log_traceback(error: Exception) -> None:
    """Logs in full where an exception of other people's code was raised; once for each line of that code."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = (type(error).__name__, last.filename if last else "", (last.lineno or 0) if last else 0)
    if place in _logged or len(_logged) >= MOST_TRACEBACKS:
        return
    _logged.add(place)
    for line in "".join(traceback.format_exception(error)).splitlines():
        _log.info("%s", line.replace("Traceback (most", "raised here (most"))  # a traceback is a fault of ours


def error_text(error: Exception) -> str:
    """An exception of other people's code, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
