"""Many runs as tidy tables: a row for each run, or for each row of their metrics, with plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from common.settings.toml import by_path
from deploy.runs.groups import Group, differing
from learner.record.curve import columns

CURVE = (
    *("seconds", "frames", "episodes", "version", "mean_return", "best_return", "episode_length", "actors"),
    *("frames_per_second", "lag_mean", "evaluation_frames", "evaluation_return", "evaluation_low", "evaluation_high"),
)
"""Metrics of a curve; those named `evaluation_...` are of the last evaluation, at `evaluation_frames`."""

_NAMED = ("environment.id", "algorithm.kind", "network.kind")
"""Settings that a row has under shorter names."""


def run_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """A row for each run: the fields of `RunRow`, its group, and by their paths the settings in which runs differ."""
    runs = [(group, run) for group in groups for run in group.runs]
    paths = [path for path in differing([run.settings for _, run in runs]) if path not in _NAMED]
    rows = []
    for group, run in runs:
        plain, settings = msgspec.to_builtins(run.row), by_path(run.settings)
        own = {path: _cell(settings[path]) for path in paths}
        rows.append({"run": plain.pop("run"), "group": group.name, **plain, **own})
    return rows


def _cell(value: Any) -> bool | int | float | str | None:
    return value if isinstance(value, bool | int | float | None) else str(value)


def curve_rows(groups: Sequence[Group], names: Sequence[str] = CURVE) -> Iterator[dict[str, Any]]:
    """A row for each row of metrics: which run it belongs to, and the numbers `names`; None where one is missing."""
    for group in groups:
        for run in group.runs:
            of = {"run": run.row.run, "group": group.name, "env": group.env, "algorithm": run.row.algorithm}
            table = columns(run.folder.metrics_file, names)
            for numbers in zip(*table.values(), strict=True):
                values = (float(one) if np.isfinite(one) else None for one in numbers)
                yield {**of, "seed": run.row.seed, **dict(zip(names, values, strict=True))}
