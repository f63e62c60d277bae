"""The interface of a tracker, which takes the rows of one run, and at its end the summary. Each is in `to_NAME.py`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from common.errors import ConfigurationError

if TYPE_CHECKING:
    from deploy.tracking.rows import Row

TRACKERS = ("wandb", "mlflow")
"""Each is the name of its library, of a3cd's extra, and of the module `deploy.tracking.to_NAME`."""


@dataclass(frozen=True)
class TrackedRun:
    """What is known of a run from its beginning."""

    id: str
    """16 hexadecimal digits, by which the same run is found again."""
    name: str
    settings: Mapping[str, bool | float | str]
    """The run's settings by their paths."""
    folder: Path
    """Where a tracker may keep what it has not sent yet."""


@dataclass(frozen=True)
class Target:
    """Where the rows go to."""

    project: str
    """For MLflow, the experiment."""
    uri: str = ""
    """Address of the server or the database; empty: as the library's own environment variables say."""
    offline: bool = False
    """Write the rows down, to be sent later."""


class Tracker(Protocol):
    """Whatever a method raises, the rows that it was given are given again to a new tracker of the same kind."""

    def log(self, rows: Sequence[Row]) -> None:
        """Take these rows, each of which follows the one before."""

    def conclude(self, state: str, summary: Mapping[str, float]) -> None:
        """End the run for now. `state`: as in RunStatus; `summary`: its numbers, empty if there is no summary."""

    def close(self) -> None:
        """Send what is left."""


def open_tracker(kind: str, run: TrackedRun, target: Target) -> Tracker:
    """Open a tracker. Raises ConfigurationError if its library is missing or was told something wrong; other errors may
    be temporary."""
    require(kind)
    module: Any = importlib.import_module(f"deploy.tracking.to_{kind}")
    tracker: Tracker = module.open_tracker(run, target)
    return tracker


def require(kind: str) -> None:
    """Raises ConfigurationError where the tracker's own library is missing; loads nothing."""
    if importlib.util.find_spec(kind) is None:
        raise ConfigurationError(f"this needs {kind}, which is not installed here: pip install 'a3cd[{kind}]'")
