"""Weights & Biases: rows as history, with `frames` as the axis of all charts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import wandb
from wandb.errors import UsageError

from common.errors import ConfigurationError
from deploy.tracking.rows import Row
from deploy.tracking.tracker import Target, TrackedRun

INIT_SECONDS = 30.0
"""Longest wait for the server's first answer."""


class WandbTracker:
    def __init__(self, run: Any) -> None:
        self._run = run
        self._failed = False

    def log(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log({**row.figures, "_timestamp": row.time}, step=row.number)

    def conclude(self, state: str, summary: Mapping[str, float]) -> None:
        self._failed = state == "failed"
        self._run.summary.update({"state": state, **{f"summary/{name}": value for name, value in summary.items()}})

    def close(self) -> None:
        self._run.finish(exit_code=int(self._failed))
        wandb.teardown()  # ends the process that wandb has started


def open_tracker(run: TrackedRun, target: Target) -> WandbTracker:
    """Open the run with this id, or make it. Raises ConfigurationError where nobody is logged in."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    os.environ.setdefault("WANDB_SILENT", "true")
    settings: dict[str, Any] = {
        "silent": True,
        "console": "off",
        "init_timeout": INIT_SECONDS,
        # These would be of this machine and this process, neither of which is the learner's.
        "x_disable_stats": True,
        "x_disable_machine_info": True,
        "x_save_requirements": False,
        "disable_git": True,
        "save_code": False,
    }
    if target.uri:
        settings["base_url"] = target.uri
    mode = {"mode": "offline"} if target.offline else {}
    try:
        begun = wandb.init(
            project=target.project,
            id=run.id,
            name=run.name,
            config=dict(run.settings),
            dir=str(run.folder),
            resume="allow",
            settings=wandb.Settings(**settings),
            **mode,
        )
    except UsageError as error:
        cure = " Or keep it here: --offline, or WANDB_MODE=offline." if "login" in str(error) else ""
        raise ConfigurationError(f"Weights & Biases: {error}{cure}") from error
    except BaseException:
        wandb.teardown()  # else wandb would believe that a run of this id is under way
        raise
    begun.define_metric("frames")
    begun.define_metric("*", step_metric="frames")
    return WandbTracker(begun)
