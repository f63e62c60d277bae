"""The learning curve of a run as a picture."""

from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.host.atomic_file import replace_file
from learner.record import chart
from learner.record.chart import Panel
from learner.record.metrics_file import rows

_RETURN, _LENGTH, _ACTORS = "#1f6feb", "#bf5b04", "#2d7d46"
SIZE = (1320, 672)
HEIGHTS = (3, 1)
"""Of returns, and of what is drawn below them."""

_COLUMNS = ("frames", "seconds", "mean_return", "episode_length", "actors")
Columns = dict[str, NDArray[np.float64]]
"""By name, (rows,) each; NaN where a row has no such number."""

_TIMES = (("hours", 3600), ("minutes", 60), ("seconds", 1))
"""Units of the time axis; the first of which the run lasted two or more, else seconds."""


def draw(metrics_file: Path, out_png: Path, title: str, goal: float | None) -> None:
    """Draw mean return and episode length against frames; mean return and number of actors against time.

    `goal` is a dashed line. Rows need `frames`; `seconds`, `mean_return`, `episode_length` and `actors` are drawn
    where they are there. Raises OSError if the picture cannot be written.
    """
    replace_file(out_png, chart.png(title, panels(_columns(metrics_file), goal), SIZE, HEIGHTS))


def panels(table: Columns, goal: float | None) -> list[list[Panel]]:
    """Those over frames, and those over time."""
    longest = _largest(table, "seconds")
    unit, seconds = next((entry for entry in _TIMES if longest >= 2 * entry[1]), _TIMES[-1])
    frames = _largest(table, "frames") * 1.01 or 10.0
    time = longest / seconds * 1.01 or 10.0
    none = "no episodes finished"
    x, y = _points(table, "frames", "mean_return", 1)
    over_frames = Panel(x, y, frames, _RETURN, "mean return", goal=goal, note=none)
    x, y = _points(table, "frames", "episode_length", 1)
    lengths = Panel(x, y, frames, _LENGTH, "episode length", "frames", 2.0)
    x, y = _points(table, "seconds", "mean_return", seconds)
    over_time = Panel(x, y, time, _RETURN, goal=goal, note=none)
    x, y = _points(table, "seconds", "actors", seconds)
    actors = Panel(x, y, time, _ACTORS, "actors", f"time ({unit})", 2.0, steps=True, counts=True)
    return [[over_frames, lengths], [over_time, actors]]


def _columns(metrics_file: Path) -> Columns:
    """Memory is taken for these numbers only, not for the rows."""
    columns = {name: array("d") for name in _COLUMNS}
    for row in rows(metrics_file):
        for name, column in columns.items():
            value = row.get(name)
            column.append(value if isinstance(value, int | float) else np.nan)
    return {name: np.frombuffer(column) for name, column in columns.items()}


def _largest(table: Columns, name: str) -> float:
    return float(np.nanmax(table[name], initial=0.0))


def _points(table: Columns, over: str, name: str, unit: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One curve; rows in which either value is missing or null are left out. `unit` divides the values of `over`."""
    known = np.isfinite(table[over]) & np.isfinite(table[name])
    return table[over][known] / unit, table[name][known]
