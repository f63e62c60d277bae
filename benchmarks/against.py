"""The option `--against FOLDER`: another checkout, measured in turn with this one.

FOLDER holds the files of another commit, as `git worktree add FOLDER COMMIT` writes them; they run with this
interpreter and its packages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.host.versions import commit


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, measured by turns with this")


def checkout(given: argparse.Namespace) -> Path | None:
    """Print the commit of the checkout that --against names, and return its folder; None: the option is not given."""
    if given.against is None:
        return None
    folder: Path = given.against.resolve()
    if not (folder / "common").is_dir():
        sys.exit(f"{folder} is no checkout of a3cd")
    print(f"before: {commit(folder)[:12]}")
    return folder


def ratio(now: float | None, before: float | None) -> float | None:
    """Return now / before; None where either is missing or before is 0."""
    return now / before if now is not None and before else None
