"""Names such as `module:Name` for environments and networks of users: their parts, importing the module, its errors.

This file needs no gymnasium and no torch, which take seconds to load.
"""

import ast
import importlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from common.errors import A3cdError, ConfigurationError

ROOMS = ("common", "actor", "learner", "relay", "deploy", "simulation")
"""The packages of a3cd; a user's file with such a name is never imported."""
MOST_TRACEBACKS = 16
_log = logging.getLogger(__name__)
_logged: set[tuple[str, str, int]] = set()


def module_of(named: str) -> str:
    """Return `module` of `module:Name`; empty if there is none."""
    return named.rpartition(":")[0]


def bare(named: str) -> str:
    """Return `Name` of `module:Name`."""
    return named.rpartition(":")[2]


def canonical(named: str) -> str:
    """Return `module:Name` for `folder/file.py:Name`, a file in or below the working folder; other names unchanged.

    Raises ConfigurationError for a file that does not exist, or could not be imported from there.
    """
    file, colon, name = named.rpartition(":")
    if not colon and named.endswith(".py"):
        there = ", ".join(classes_in(Path(named)))
        raise ConfigurationError(
            f"{named}: which of its classes? write {named}:NAME, or an id that it registers"
            + (f"; it has {there}" if there else "")
        )
    if not file.endswith(".py"):
        return named
    here = Path.cwd()
    path = Path(os.path.normpath(here / file))
    if not path.is_relative_to(here):
        raise ConfigurationError(f"{named}: it is not below {here}: go to its folder, and write {path.name}:{name}")
    if not path.is_file():
        near = get_close_matches(path.name, [one.name for one in path.parent.glob("*.py")], n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"{named}: there is no file {path}{meant}")
    parts = path.relative_to(here).with_suffix("").parts
    for part in parts:
        if not part.isidentifier():
            raise ConfigurationError(f"{named}: Python cannot import {part!r}: rename it, to letters, digits and _")
    return f"{'.'.join(parts)}:{name}"


def classes_in(file: Path) -> list[str]:
    """Return the classes that a Python file defines, without importing it; none if it cannot be read."""
    try:
        found = ast.parse(file.read_bytes()).body
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []
    return [node.name for node in found if isinstance(node, ast.ClassDef)]


def in_files(name: str) -> str:
    """Return a hint if a file in the working folder, or a class in one, has this name; else an empty text."""
    here = {file: classes_in(file) for file in sorted(Path.cwd().glob("*.py"))}
    for file, classes in here.items():
        if file.stem == name and classes:
            return f"did you mean {file.name}:{classes[0]}?"
        if found := [one for one in classes if one in (name, name.partition("-v")[0])]:
            return f"did you mean {file.name}:{found[0]}?"
    return ""


def check_module(named: str, allowed: Collection[str]) -> None:
    """Raise ConfigurationError if the module of `module:Name` is not allowed here.

    The learner chooses the module, and importing it runs its code on this host.
    """
    module = module_of(named)
    if module and module not in allowed:
        raise ConfigurationError(
            f"the learner wants the module {module} imported here, for {named}: "
            f"start this actor (or its launcher) with --allow-module {module} if it may"
        )


def load(module: str, problem: Callable[[str], A3cdError]) -> ModuleType:
    """Import a module that the operator has named; raises `problem(reason)` if that fails.

    If the module is only in the working folder, that folder is searched after all others, from then on also for what
    the module imports. Otherwise it is never searched: a file there could take the place of a package that is not
    installed.
    """
    if file := _hidden(module):
        raise problem(file)
    top = module.partition(".")[0]
    if not _known(top) and _in_working_folder(top):
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except (ImportError, AttributeError) as error:
        named = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", "")
        if file := _hidden(named or ""):
            raise problem(file) from error
        if not isinstance(error, ModuleNotFoundError):
            log_traceback(error)
            raise problem(f"importing {module} failed: {error_text(error)}") from error
        if error.name != top:
            log_traceback(error)
            raise problem(f"{module} imports {error.name}, which is not installed here") from error
        near = get_close_matches(top, [file.stem for file in Path.cwd().glob("*.py")], n=1, cutoff=0.75)
        raise problem(
            f"no module named {top} in this Python's path or in the working folder {Path.cwd()}: "
            + (f"did you mean {near[0]}? else " if near else "")
            + f"start a3cd in the folder with {top}.py (each host with actors needs that file), or install its package"
        ) from error
    except Exception as error:
        log_traceback(error)
        raise problem(f"importing {module} failed: {error_text(error)}") from error
    except SystemExit as error:
        raise problem(
            f"importing {module} would end a3cd (exit code {error.code}): it is also a script, whose own part belongs "
            'under `if __name__ == "__main__":`'
        ) from error


def findable(module: str) -> bool:
    """Return whether `load` would find the top-level package of this module, without importing it."""
    top = module.partition(".")[0]
    return bool(top) and (_known(top) or _in_working_folder(top))


def missing(module: ModuleType, name: str, what: str, there: Collection[str]) -> str:
    """Return the error message for a module that lacks `name`.

    what: the kind of thing, for instance "environment". there: the names of those that the module has.
    """
    file = getattr(module, "__file__", None) or "built in"
    top = module.__name__.partition(".")[0]
    if _in_working_folder(top) and not Path(file).is_relative_to(Path.cwd()):
        return f"{top} is {file}, not the file here, which has the same name: rename yours"
    near = get_close_matches(name, there, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sorted(there))}" if there else ""
    return f"{module.__name__} ({file}) has no {what} {name}{hint}"


def _known(top: str) -> bool:
    return top in sys.modules or importlib.util.find_spec(top) is not None


def _in_working_folder(top: str) -> bool:
    here = Path.cwd()
    return (here / f"{top}.py").is_file() or (here / top).is_dir()


def _hidden(module: str) -> str:
    """Return the error message for a user's file of this module's name, if a3cd has a package of that name; else ""."""
    top = module.partition(".")[0]
    if top not in ROOMS:
        return ""
    own = Path(__file__).parents[2]
    for folder in (*map(Path, sys.path), Path.cwd()):
        for file in (folder / f"{top}.py", folder / top / "__init__.py"):
            if file.is_file() and folder.resolve() != own:
                return f"{file} cannot be imported, since {top} is the name of a part of a3cd: rename that file"
    return ""


def log_traceback(error: Exception) -> None:
    """Log the traceback of an exception that was raised in other people's code, once for each line of that code."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = (type(error).__name__, last.filename if last else "", (last.lineno or 0) if last else 0)
    if place in _logged or len(_logged) >= MOST_TRACEBACKS:
        return
    _logged.add(place)
    for line in "".join(traceback.format_exception(error)).splitlines():
        _log.info("%s", line.replace("Traceback (most", "raised here (most"))  # "Traceback" means a fault of a3cd


def error_text(error: Exception) -> str:
    """Return an exception of other people's code as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
