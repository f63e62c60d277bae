"""Numbers as texts for a person."""

import math
from collections.abc import Sequence

NOTHING = "–"
"""Shown where there is no figure yet."""
_BLOCKS = "▁▂▃▄▅▆▇█"


def number(value: float | None) -> str:
    """About three digits: 1,234 / 87.3 / 0.0123."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def amount(value: float) -> str:
    """A count in about five characters: 950, 12.3k, 1.2M."""
    return _prefixed(value, "")


def size(octets: float) -> str:
    """Bytes in decimal units: 950 B, 12.3 kB, 1.2 MB."""
    return f"{_prefixed(octets, ' ')}B"


def _prefixed(value: float, space: str) -> str:
    for unit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.1f}{space}{prefix}"
    return f"{value:.0f}{space}"


def share(fraction: float) -> str:
    """A fraction in percent: 34 %."""
    return f"{100 * fraction:.0f} %" if math.isfinite(fraction) else NOTHING


def duration(seconds: float | None) -> str:
    """1:05, 2:07:09, 3d 04:05."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def spark(values: Sequence[float], width: int) -> str:
    """A sparkline of `values` in at most `width` characters, scaled from their minimum to their maximum."""
    points = [value / 2 for value in values if math.isfinite(value)]  # the difference of two is finite, too
    if not points:
        return ""
    if len(points) > width:
        step = len(points) / width
        slices = [points[int(index * step) : int((index + 1) * step)] for index in range(width)]
        points = [sum(value / len(piece) for value in piece) for piece in slices]
    low = min(points)
    height = max(points) - low or 1.0
    return "".join(_BLOCKS[int((value - low) / height * (len(_BLOCKS) - 1) + 0.5)] for value in points)
