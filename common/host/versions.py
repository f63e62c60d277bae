"""What this process runs on, as told to the other end."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("a3cd", "torch", "gymnasium", "numpy", "pyzmq")


def versions() -> dict[str, str]:
    """Python's version and those of the packages that matter, without loading any; what is missing is left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
