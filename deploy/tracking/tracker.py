"""What a tracker is: it takes the rows of one run, and at its end the summary. `to_NAME.py` has each."""

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
    """16 hexadecimal digits: the same run is found again by it."""
    name: str
    settings: Mapping[str, bool | float | str]
    """By their paths."""
    folder: Path
    """Where a tracker may keep what it has not sent yet."""


@dataclass(frozen=True)
class Target:
    """Where it goes to."""

    project: str
    """Of MLflow the experiment."""
    uri: str = ""
    """Of the server or the database; empty: as the library's own environment variables say."""
    offline: bool = False
    """Write it down, to be sent later."""


class Tracker(Protocol):
    """Whatever a method raises, the rows that it was given are given again, to another one of its kind."""

    def log(self, rows: Sequence[Row]) -> None:
        """Take these rows, each of which follows the one before."""

    def conclude(self, state: str, summary: Mapping[str, float]) -> None:
        """The run is over for now; `state` as in RunStatus, and the numbers of the summary, none if there is none."""

    def close(self) -> None:
        """Send what is left."""


def open_tracker(kind: str, run: TrackedRun, target: Target) -> Tracker:
    """Raises ConfigurationError where the library is missing, or what it was told is wrong; other errors may pass."""
    require(kind)
    module: Any = importlib.import_module(f"deploy.tracking.to_{kind}")
    tracker: Tracker = module.open_tracker(run, target)
    return tracker


def require(kind: str) -> None:
    """Raises ConfigurationError where the tracker's own library is missing; loads nothing."""
    if importlib.util.find_spec(kind) is None:
        raise ConfigurationError(f"this needs {kind}, which is not installed here: pip install 'a3cd[{kind}]'")
