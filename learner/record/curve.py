"""Draws the learning curve of a run."""

import io
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.host.atomic_file import replace_file
from learner.record.metrics_file import rows

_RETURN, _LENGTH, _ACTORS, _GREY, _LINES = "#1f6feb", "#bf5b04", "#2d7d46", "#5f5f5f", "#e3e3e3"
_EVALUATED = "#8b2fc9"

_EVALUATION = ("evaluation_frames", "evaluation_seconds", "evaluation_return", "evaluation_low", "evaluation_high")
_COLUMNS = ("frames", "seconds", "mean_return", "episode_length", "actors", *_EVALUATION)
Columns = dict[str, NDArray[np.float64]]
"""Columns of a table by name, each (rows,); NaN where a row has no such number."""

TIMES = (("hours", 3600), ("minutes", 60), ("seconds", 1))
"""Units of the time axis: the first one of which the run lasted at least two is used, otherwise seconds."""


def draw(metrics_file: Path, out_png: Path, title: str, goal: float | None) -> None:
    """Draw mean return and episode length against frames; mean return and number of actors against time.

    Evaluations, if there are any, are drawn beside the training return, with the band of their 95 % intervals. `goal`
    is a dashed line. Rows must have `frames`; other figures are drawn where they are present. Raises OSError if the
    picture cannot be written.
    """
    # Imported here, not at the top, since importing matplotlib would add half a second to a learner's start.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    table = columns(metrics_file)
    longest = _largest(table, "seconds")
    unit, seconds = next((entry for entry in TIMES if longest >= 2 * entry[1]), TIMES[-1])
    figure: Any = Figure(figsize=(11, 5.6), layout="constrained", facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13)
    panels = figure.subplots(2, 2, sharex="col", height_ratios=(3, 1))
    (by_frames, by_time), (lengths, actors) = panels
    for panel in panels.flat:
        tidy(panel)

    _plot(by_frames, table, "frames", "mean_return", 1, color=_RETURN, linewidth=1.8, label="training")
    _plot(by_time, table, "seconds", "mean_return", seconds, color=_RETURN, linewidth=1.8, label="training")
    evaluated = evaluations(table)
    _band(by_frames, evaluated, "evaluation_frames", 1)
    _band(by_time, evaluated, "evaluation_seconds", seconds)
    _plot(lengths, table, "frames", "episode_length", 1, color=_LENGTH, linewidth=1.2)
    _plot(actors, table, "seconds", "actors", seconds, color=_ACTORS, linewidth=1.2, drawstyle="steps-post")
    for panel in (by_frames, by_time):
        if goal is not None and panel.lines:
            panel.axhline(goal, color=_GREY, linewidth=1.2, linestyle="--")
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            panel.annotate(f"goal {goal:g}", (0, goal), xytext=(6, -4), va="top", fontsize=9, color=_GREY, **place)

    by_frames.set_ylabel("mean return")
    lengths.set_ylabel("episode length")
    lengths.set_xlabel("frames (agent steps)")
    lengths.set_xlim(0, _largest(table, "frames") * 1.01 or 10)
    lengths.xaxis.set_major_formatter(EngFormatter(sep=""))
    actors.set_ylabel("actors")
    actors.set_ylim(bottom=0)
    actors.set_xlabel(f"time ({unit})")
    actors.set_xlim(0, longest / seconds * 1.01 or 10)
    if actors.lines:
        actors.yaxis.set_major_locator(MaxNLocator(3, integer=True))

    picture = io.BytesIO()
    canvas.print_figure(picture, format="png", dpi=120)
    replace_file(out_png, picture.getvalue())


def columns(metrics_file: Path, names: Sequence[str] = _COLUMNS) -> Columns:
    """Return the numbers of these names in every row; takes memory only for them, not for the rows. Raises OSError."""
    found = {name: array("d") for name in names}
    for row in rows(metrics_file):
        for name, column in found.items():
            value = row.get(name)
            column.append(value if isinstance(value, int | float) else np.nan)
    return {name: np.frombuffer(column) for name, column in found.items()}


def evaluations(table: Columns) -> Columns:
    """Return a row for each evaluation: the last one with it, since rows repeat it and a confirmation completes it."""
    frames = table["evaluation_frames"]
    known = np.flatnonzero(np.isfinite(frames) & np.isfinite(table["evaluation_return"]))
    if known.size:
        known = known[np.append(np.diff(frames[known]) != 0, True)]
    return {name: table[name][known] for name in _EVALUATION}


def _band(panel: Any, evaluations: Columns, over: str, unit: float) -> None:
    x, y = evaluations[over] / unit, evaluations["evaluation_return"]
    if not x.size:
        return
    low, high = evaluations["evaluation_low"], evaluations["evaluation_high"]
    panel.fill_between(x, low, high, color=_EVALUATED, alpha=0.2, linewidth=0)
    panel.plot(x, y, color=_EVALUATED, linewidth=1.2, marker="o", markersize=3, label="evaluation, 95 %")
    panel.legend(loc="lower right", frameon=False, fontsize=9)


def _largest(table: Columns, name: str) -> float:
    return float(np.nanmax(table[name], initial=0.0))


def _plot(panel: Any, table: Columns, over: str, name: str, unit: float, **look: Any) -> None:
    """Draw one curve, without rows in which either value is missing or null. `unit` divides the values of `over`."""
    known = np.isfinite(table[over]) & np.isfinite(table[name])
    if known.any():
        x, y = table[over][known] / unit, table[name][known]
        panel.plot(x, y, marker="o" if x.size == 1 else None, **look)
        return
    panel.set_yticks([])
    if name == "mean_return":
        panel.text(0.5, 0.5, "no episodes finished", transform=panel.transAxes, ha="center", va="center", color=_GREY)


def tidy(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(_GREY)
    panel.grid(color=_LINES, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=9, color=_GREY)
