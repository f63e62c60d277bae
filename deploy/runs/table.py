"""A table with a row for each run, read from the run folders; runs that cannot be read are named and left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from common.errors import A3cdError, DamagedCheckpointError
from common.host import file_lock
from common.run.folder import RunFolder
from common.run.runs import all_runs
from common.run.status import EVALUATED, EvaluationStatus
from common.settings.sections import Settings
from learner.record.metrics_file import last_row


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as far as it has come."""

    run: str
    """Its folder."""
    env: str
    algorithm: str
    network: str
    seed: int
    state: str
    """running; reached, finished, stopped or failed, as its learner said; interrupted: the learner said nothing."""
    frames: int | None
    """Steps of the agents; this and the next fields are None where there are no figures at all."""
    seconds: float | None
    episodes: int | None
    mean_return: float | None
    """Mean training return over the last `limits.window` episodes."""
    best_return: float | None
    """Highest mean training return over a full window."""
    best_evaluation: float | None
    """Mean return of the best weights by an evaluator, None if there was none; the next two are its 95 % interval."""
    best_evaluation_low: float | None
    best_evaluation_high: float | None
    best_evaluation_episodes: int | None
    best_evaluation_version: int | None
    created: str
    """ISO 8601, UTC."""
    id: str
    """16 hexadecimal digits."""


@dataclass(frozen=True)
class FoundRun:
    folder: RunFolder
    settings: Settings
    row: RunRow


@dataclass(frozen=True)
class Table:
    runs: list[FoundRun]
    """Sorted by environment, algorithm, the rest of the settings, and seed."""
    broken: list[str]
    """For each run that cannot be read: its folder, or a file in it, and why."""


def read_table(folders: Iterable[Path]) -> Table:
    """All runs in some folders, each once, whatever links lead to it; raises as `all_runs`."""
    found: list[FoundRun] = []
    broken: list[str] = []
    named: dict[Path, Path] = {}
    for one in folders:
        for run in all_runs(one):
            named.setdefault(run.path.resolve(), run.path)
    for folder in named.values():
        try:
            found.append(_read(RunFolder(folder)))
        except (A3cdError, OSError) as error:
            broken.append(str(error) if str(folder) in str(error) else f"{folder}: {error}")
    return Table(sorted(found, key=_order), broken)


def _order(run: FoundRun) -> tuple[Any, ...]:
    row = run.row
    return row.env, row.algorithm, repr(msgspec.structs.replace(run.settings, seed=0)), row.seed, row.run


def _read(folder: RunFolder) -> FoundRun:
    record, settings = folder.record(), folder.settings()
    summary = folder.summary()
    figures = summary or _so_far(folder)
    state = figures.get("state") or ("running" if file_lock.is_held(folder.lock_file) else "interrupted")
    shown: dict[str, Any] = {
        "run": str(folder.path),
        "env": settings.environment.id,
        "algorithm": settings.algorithm.kind,
        "network": settings.network.kind,
        "seed": settings.seed,
        "state": state,
        "created": record.created,
        "id": record.run,
    }
    names = [name for name in RunRow.__struct_fields__ if name not in shown]
    try:
        row = msgspec.convert(shown | {name: figures.get(name) for name in names}, RunRow)
    except msgspec.ValidationError as error:
        raise A3cdError(f"{folder.summary_file if summary else folder.metrics_file}: {error}") from error
    return FoundRun(folder, settings, row)


def _so_far(folder: RunFolder) -> dict[str, Any]:
    """The figures of a run without a summary: those of its last row, and of its checkpoints."""
    best: EvaluationStatus | None = None
    for checkpoint in folder.all_checkpoints():
        try:
            evaluation = checkpoint.read_state().evaluation
        except DamagedCheckpointError:
            continue
        if evaluation is not None and (best is None or evaluation.mean > best.mean):
            best = evaluation
    return last_row(folder.metrics_file) | {name: getattr(best, of, None) for name, of in EVALUATED.items()}
