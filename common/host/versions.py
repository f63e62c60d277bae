"""Versions of Python, of the packages that matter, and of a3cd's own source."""

import contextlib
import json
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

PACKAGES = ("a3cd", "torch", "gymnasium", "numpy", "pyzmq")
ENVIRONMENTS = ("ale-py", "flappy-bird-gymnasium", "box2d", "mujoco")
"""Packages of environments, which decide how these play."""
GIT_SECONDS = 5.0
"""Longest wait for git, which takes some ten milliseconds."""


@cache
def own_version() -> str:
    """Return the version of a3cd."""
    return versions().get("a3cd", "unknown")


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, PACKAGES and `more`, without importing them; those not installed are left out."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit(source: Path = Path(__file__).parents[2]) -> str:
    """Return the commit of a3cd's source, with `-dirty` if files were changed since; empty if it is not known.

    source: the folder that a3cd is imported from: a clone, or the folder into which pip has installed one.
    """
    if (source / ".git").exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return _commit(source)
        return ""
    with contextlib.suppress(PackageNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        origin = distribution("a3cd").read_text("direct_url.json")
        return str(json.loads(origin or "{}")["vcs_info"]["commit_id"])
    return ""


def _commit(source: Path) -> str:
    """Ask git, without taking a lock, which would be left behind if git were killed. `git describe` takes one."""
    words = ["git", "--no-optional-locks", "-C", str(source)]
    words += ["status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=no"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=GIT_SECONDS, check=True)
    head, *rest = done.stdout.splitlines()
    found = head.removeprefix("# branch.oid ")
    if found == "(initial)":
        return ""
    return found if all(line.startswith("#") for line in rest) else f"{found}-dirty"
