"""Starts the `a3cd` command.

A module of its own, since a user's file may be called `actor`, `common`, `deploy` or `learner` as well: found first, by
PYTHONPATH, it would be imported in the place of a3cd's.
"""

import importlib
import sys
from pathlib import Path

ROOMS = ("common", "actor", "learner", "deploy")


def main() -> None:
    own = str(Path(__file__).parent)
    sys.path.insert(0, own)
    try:
        for room in ROOMS:
            importlib.import_module(room)  # a package finds all that is in it by its own path from then on
    finally:
        sys.path.remove(own)
    from deploy.cli.command import main as run

    run()


if __name__ == "__main__":
    main()
