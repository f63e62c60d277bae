"""Versions of Python and of the packages that matter."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("a3cd", "torch", "gymnasium", "numpy", "pyzmq")


def versions() -> dict[str, str]:
    """By name, without importing the packages; those that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
