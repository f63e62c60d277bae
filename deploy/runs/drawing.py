"""The curves of many runs in one picture: a panel for each environment, a colour for each group."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError, UnavailableError
from common.host.atomic_file import replace_file
from deploy.runs.curves import Curve, Over, Score, curve, mean_curve
from deploy.runs.groups import Group
from learner.record.curve import TIMES, tidy

KINDS = (".png", ".svg", ".pdf")
ACROSS = 2
"""Panels side by side, at most."""
NAMED = 10
"""Groups with a colour of their own in a panel."""


def check_name(out: Path) -> None:
    """Raises ConfigurationError for a file that no picture can be drawn into."""
    if out.suffix.lower() not in KINDS:
        raise ConfigurationError(f"{out}: a picture is a {', '.join(KINDS[:-1])} or {KINDS[-1]} file")
    if not out.parent.is_dir():
        raise ConfigurationError(f"{out}: there is no folder {out.parent}")


def draw(groups: Sequence[Group], out: Path, over: Over, score: Score) -> None:
    """Draw each run as a thin line, and the mean of each group, with its interval, as far as all its runs have come.

    Raises ConfigurationError for another kind of file, and if no run has a curve; UnavailableError if it cannot be
    written.
    """
    check_name(out)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = {id(group): [curve(run.folder.metrics_file, over, score) for run in group.runs] for group in groups}
    shown = [group for group in groups if any(one.x.size for one in lines[id(group)])]
    if not shown:
        what = "an evaluation; draw --score training" if score == "evaluation" else "a finished episode"
        raise ConfigurationError(f"{out}: nothing to draw: no run has {what}")
    environments = list(dict.fromkeys(group.env for group in shown))
    across = min(ACROSS, len(environments))
    down = -(-len(environments) // across)
    figure: Any = Figure(figsize=(6.5 * across, 4.2 * down), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    longest = max(one.x[-1] for group in shown for one in lines[id(group)] if one.x.size)
    unit, length = next((entry for entry in TIMES if longest >= 2 * entry[1]), TIMES[-1])
    for panel, env in zip(panels, environments, strict=False):
        own = [group for group in shown if group.env == env]
        for number, group in enumerate(own):
            _draw_group(panel, group, lines[id(group)], f"C{number % NAMED}", length if over == "seconds" else 1)
        _look_at(panel, [one for group in own for one in lines[id(group)]])
        _finish(panel, env, over, unit, score)
    for panel in panels[len(environments) :]:
        panel.set_visible(False)
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=out.suffix[1:].lower(), dpi=120)
        replace_file(out, picture.getvalue())
    except OSError as error:
        raise UnavailableError(f"{out}: cannot be written: {error.strerror}") from error


def _draw_group(panel: Any, group: Group, lines: Sequence[Curve], colour: str, unit: float) -> None:
    seeds = len(lines)
    label = f"{group.name} ({seeds} seeds)" if seeds > 1 else group.name
    mean = mean_curve(lines)
    for one in lines:
        alone = mean is None
        panel.plot(one.x / unit, one.y, color=colour, linewidth=1.6 if alone else 0.6, alpha=1.0 if alone else 0.45)
    if mean is not None:
        panel.fill_between(mean.x / unit, mean.low, mean.high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(mean.x / unit, mean.mean, color=colour, linewidth=2.2)
    panel.plot([], [], color=colour, linewidth=2.2, label=label)


def _look_at(panel: Any, lines: Sequence[Curve]) -> None:
    """Fit the panel to the runs, not to their intervals: that of two seeds is often many times as wide."""
    low = min(float(one.y.min()) for one in lines if one.y.size)
    high = max(float(one.y.max()) for one in lines if one.y.size)
    margin = 0.05 * (high - low) or 1.0
    panel.set_ylim(low - margin, high + margin)


def _finish(panel: Any, env: str, over: Over, unit: str, score: Score) -> None:
    from matplotlib.ticker import EngFormatter

    tidy(panel)
    panel.set_title(env, fontsize=11)
    panel.set_ylabel("mean return" if score == "training" else "mean return, evaluated")
    panel.set_xlabel("frames" if over == "frames" else f"time ({unit})")
    panel.set_xlim(left=0)
    if over == "frames":
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.legend(loc="lower right", frameon=False, fontsize=8)
