"""The learning curve of a run, and the mean of several with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from common.rl.episode_statistics import student
from learner.record.curve import columns, evaluations

Over = Literal["frames", "seconds"]
Score = Literal["training", "evaluation"]
Floats = NDArray[np.float64]
POINTS = 200
"""Number of points at which a mean is taken."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Returns over frames or seconds; (N,) each, N may be 0."""

    x: Floats
    """Ascending."""
    y: Floats


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """The mean of several curves; (POINTS,) each."""

    x: Floats
    mean: Floats
    low: Floats
    """The 95 % interval of the mean, from `low` to `high`, by Student's t, over runs."""
    high: Floats


def curve(metrics_file: Path, over: Over, score: Score) -> Curve:
    """The mean training return, or each evaluation where its weights were; raises OSError."""
    at, of = (over, "mean_return") if score == "training" else (f"evaluation_{over}", "evaluation_return")
    table = columns(metrics_file)
    if score == "evaluation":
        table = evaluations(table)
    known = np.isfinite(table[at]) & np.isfinite(table[of])
    order = np.argsort(table[at][known], kind="stable")
    return Curve(table[at][known][order], table[of][known][order])


def mean_curve(several: Sequence[Curve]) -> MeanCurve | None:
    """The mean of the curves that have points, over the range that all of them cover.

    Returns None if fewer than two curves have points, or if no range is common to them.
    """
    there = [one for one in several if one.x.size]
    begin = max((one.x[0] for one in there), default=0.0)
    end = min((one.x[-1] for one in there), default=0.0)
    if len(there) < 2 or begin >= end:
        return None
    x = np.linspace(begin, end, POINTS)
    values = np.array([np.interp(x, one.x, one.y) for one in there])
    mean = values.mean(axis=0)
    margin = student(len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return MeanCurve(x, mean, mean - margin, mean + margin)
