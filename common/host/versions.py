"""Versions of Python and of the packages that matter."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("a3cd", "torch", "gymnasium", "numpy", "pyzmq")


@cache
def own_version() -> str:
    """Of a3cd."""
    return versions().get("a3cd", "unknown")


def versions() -> dict[str, str]:
    """By name, without importing the packages; those that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
