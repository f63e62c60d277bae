"""a3cd from Python, and the start of the `a3cd` command.

    from a3cd import load
    agent = load("runs/mine")
    action = agent.act(observation)

This is a package of its own because a user's file may be called `actor`, `common`, `deploy`, `learner`, `relay` or
`simulation`. If Python found that file first, in the working folder or by PYTHONPATH, it would import it instead of
a3cd's package.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actor.agent.evaluation import Evaluation, evaluate
    from actor.agent.loaded import LoadedAgent as Agent
    from actor.agent.loaded import load
    from actor.agent.recording import record
    from actor.export.exporting import Exported, export
    from common.errors import A3cdError, ConfigurationError, ObservationError, UnavailableError
    from deploy.runs.frames import curves, runs

__all__ = [
    "A3cdError",
    "Agent",
    "ConfigurationError",
    "Evaluation",
    "Exported",
    "ObservationError",
    "UnavailableError",
    "curves",
    "evaluate",
    "export",
    "load",
    "main",
    "record",
    "runs",
]

ROOMS = ("common", "actor", "learner", "relay", "deploy", "simulation")
_PLACES = {
    "A3cdError": ("common.errors", "A3cdError"),
    "Agent": ("actor.agent.loaded", "LoadedAgent"),
    "ConfigurationError": ("common.errors", "ConfigurationError"),
    "Evaluation": ("actor.agent.evaluation", "Evaluation"),
    "Exported": ("actor.export.exporting", "Exported"),
    "ObservationError": ("common.errors", "ObservationError"),
    "UnavailableError": ("common.errors", "UnavailableError"),
    "curves": ("deploy.runs.frames", "curves"),
    "evaluate": ("actor.agent.evaluation", "evaluate"),
    "export": ("actor.export.exporting", "export"),
    "load": ("actor.agent.loaded", "load"),
    "record": ("actor.agent.recording", "record"),
    "runs": ("deploy.runs.frames", "runs"),
}
"""Module and attribute of each public name. They are imported on first use: the command need not wait for numpy and
gymnasium."""


def _import_rooms() -> None:
    """Import the top-level packages from a3cd's own folder; from then on each finds its modules by its own path."""
    own = Path(__file__).parents[1]
    sys.path.insert(0, str(own))
    try:
        for room in ROOMS:
            found = importlib.import_module(room).__file__ or ""
            if not Path(found).is_relative_to(own / room):
                raise ImportError(f"{found} was imported as {room}, the name of a part of a3cd: rename that file")
    finally:
        sys.path.remove(str(own))


_import_rooms()


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module a3cd has no attribute {name}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__


def main() -> None:
    """The `a3cd` command."""
    from deploy.cli.command import main as run

    run()
