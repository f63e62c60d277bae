"""Reading the folder of a run that goes on or has ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import A3cdError
from common.host import file_lock
from common.run.folder import RunFolder, RunRecord
from common.run.metrics_rows import MetricsRows
from common.run.status import EVALUATED, RunStatus
from common.settings.sections import Settings
from common.settings.toml import dump
from deploy.dashboard.watched import Past

GOES_ON_SECONDS = 30.0
"""A run without a summary whose lock is free counts as interrupted if its last row is older than this."""
AT_ONCE = 4096
"""Rows read at a time."""
NO_SETTINGS = (
    "# settings.toml in the run folder holds no settings that this version of a3cd knows;\n"
    "# `a3cd check-config --parse-only settings.toml` there says why\n"
)


class FolderReader:
    """Reads what is new in a folder each time it is asked."""

    def __init__(self, path: Path) -> None:
        self._folder = RunFolder(path)
        self._rows = MetricsRows(self._folder.metrics_file)
        self._past = Past()

    def record(self) -> RunRecord:
        """The record of the run in the folder; raises as `RunFolder.record`."""
        return self._folder.record()

    def past(self) -> Past:
        """Everything that the folder tells of the run's course. Raises as `MetricsRows.next`."""
        while rows := self._rows.next(AT_ONCE):
            self._past.read(rows)
        self._past.settings = self._settings()
        return self._past

    def _settings(self) -> str:
        """The settings as TOML, written anew; empty: there are none, or the disk does not give them.

        The page never shows what a file holds that is not settings, nor an error that quotes it: the file may be
        another one of this user's, which a link in another user's run folder leads to.
        """
        try:
            return dump(self._folder.settings())
        except A3cdError as error:
            return "" if isinstance(error.__cause__, OSError) else NO_SETTINGS

    def figures(self) -> dict[str, Any]:
        """What else the folder tells, under the names that a status has for it. Raises as `RunFolder.record`."""
        record = self.record()
        found: dict[str, Any] = {
            "run": record.run,
            "epoch": record.epoch,
            "run_dir": str(self._folder.path),
            "host": record.host,
            "versions": record.versions,
            "state": "running" if self._goes_on() else "interrupted",
        }
        with contextlib.suppress(A3cdError):  # settings of another version of a3cd: the rest is shown
            found |= _from_settings(self._folder.settings())
        return found | _from_row(self._past.row or {}) | self._summary()

    def _goes_on(self) -> bool:
        """Whether a learner is at work. One that evaluates last, or whose disk is full, writes no rows.

        Where the file system has no locks, only the rows tell.
        """
        if file_lock.is_held(self._folder.lock_file):
            return True
        with contextlib.suppress(OSError):
            return time.time() - self._folder.metrics_file.stat().st_mtime < GOES_ON_SECONDS
        return False

    def _summary(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        with contextlib.suppress(A3cdError):  # then what the rows tell is shown
            plain = self._folder.summary()
        if not plain:
            return {}
        best = {of: plain.get(name) for name, of in EVALUATED.items()}
        plain["best_evaluation"] = None if best["mean"] is None else best
        plain["checkpoint"] = {"version": plain.get("checkpoint")}
        return {name: value for name, value in plain.items() if name in RunStatus.__struct_fields__}


def _from_settings(settings: Settings) -> dict[str, Any]:
    """Figures from the settings, without `auto`, of which only the learner or each of its actors knew the meaning."""
    found = {
        "env": settings.environment.id,
        "algorithm": settings.algorithm.kind,
        "network": settings.network.kind,
        "exchange": settings.exchange.kind,
        "codec": settings.exchange.codec,
        "device": settings.optimizer.device,
        "seed": settings.seed,
        "goal": settings.limits.until_return,
    }
    return {name: value for name, value in found.items() if value != "auto"}


def _from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    if row.get("evaluation_return") is None:
        return {}
    of = {"mean": "return", "low": "low", "high": "high", "episodes": "episodes", "version": "version"}
    of |= {"frames": "frames", "seconds": "seconds"}
    return {"evaluation": {name: row.get(f"evaluation_{suffix}") for name, suffix in of.items()}}
