"""Panels with one curve each, drawn with Pillow, which is loaded anyway, in a tenth of a second.

Lines are drawn three times as large and reduced, which makes them smooth; words at their own size. Lengths are pixels.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Vector = NDArray[np.float64]
_INK, _GREY, _GRID = "#262626", "#5f5f5f", "#e3e3e3"
_FINE = 3
"""Lines are drawn so many times as large."""
_SMALL, _USUAL, _LARGE = 15, 17, 22
"""Heights of letters: at ticks, along axes, in the title."""
_GAP = 8
_TICK = 5
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True)
class Panel:
    """A curve and its axes; that of x begins at 0."""

    x: Vector
    y: Vector
    """(points,) each, in the order of x; none: no axis of y, and `note` instead of a curve."""
    x_end: float
    colour: str
    y_label: str = ""
    x_label: str = ""
    """Empty: the axis is that of the panel below."""
    width: float = 3.0
    steps: bool = False
    """The value holds up to the next point."""
    counts: bool = False
    """The axis of y begins at 0, and has whole numbers only."""
    goal: float | None = None
    """A dashed line across, with its value."""
    note: str = ""

    @property
    def y_range(self) -> tuple[float, float]:
        """Of the axis: all values and the goal, with a margin."""
        goal = [] if self.goal is None else [self.goal]
        low, high = min([*goal, self.y.min()]), max([*goal, self.y.max()])
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return (0.0 if self.counts else float(low - margin)), float(high + margin)

    @property
    def y_ticks(self) -> list[float]:
        return ticks(*self.y_range, 4, whole=True) if self.counts else ticks(*self.y_range, 5)


def png(title: str, columns: Sequence[Sequence[Panel]], size: tuple[int, int], heights: Sequence[int]) -> bytes:
    """The panels in columns; `heights`: how the rows share the height."""
    fine = Image.new("RGB", (size[0] * _FINE, size[1] * _FINE), "white")
    lines = ImageDraw.Draw(fine)
    places = _places(columns, size, heights)
    for panel, box in places:
        _draw_lines(lines, panel, box)
    picture = fine.reduce(_FINE)
    words = ImageDraw.Draw(picture)
    words.text((size[0] / 2, _GAP), title, _INK, _font(_LARGE), anchor="ma")
    for panel, box in places:
        _draw_words(picture, words, panel, box)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Round numbers in this range at equal distances, `most` and one at most."""
    rough = max((high - low) / most, 1e-300)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in _STEPS if power * one >= rough * (1 - 1e-9))
    step = max(1.0, math.ceil(step)) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def number(value: float) -> str:
    """In few letters: 0.5, 1500, 20k, 1.25M."""
    for size, prefix in _PREFIXES:
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.6g}{prefix}"
    return f"{0.0 if abs(value) < 1e-12 else value:.6g}"


def thinned(x: Vector, y: Vector, x_end: float, width: int) -> tuple[Vector, Vector]:
    """At most four points for each of `width` pixels: where the curve enters and leaves it, and its extremes there."""
    if x.size <= 4 * width:
        return x, y
    pixel = np.floor(x * (width / x_end)).astype(np.int64)
    starts = np.flatnonzero(np.diff(pixel, prepend=pixel[0] - 1))
    ends = np.append(starts[1:], x.size) - 1
    kept = [starts, ends]
    for extreme in (np.minimum, np.maximum):
        reached = np.repeat(extreme.reduceat(y, starts), ends - starts + 1)
        at = np.flatnonzero(y == reached)
        kept.append(at[np.unique(pixel[at], return_index=True)[1]])
    chosen = np.unique(np.concatenate(kept))
    return x[chosen], y[chosen]


@dataclass(frozen=True)
class _Box:
    """Where a panel's axes are."""

    left: float
    top: float
    right: float
    bottom: float
    edge: float
    """Where its words begin at the left."""


def _places(
    columns: Sequence[Sequence[Panel]], size: tuple[int, int], heights: Sequence[int]
) -> list[tuple[Panel, _Box]]:
    top, bottom = 2 * _GAP + _LARGE + _GAP, size[1] - (_TICK + _SMALL + _USUAL + 3 * _GAP)
    height = (bottom - top - 2 * _GAP * (len(heights) - 1)) / sum(heights)
    found = []
    for index, column in enumerate(columns):
        edge = index * size[0] / len(columns) + _GAP
        words = max((_font(_SMALL).getlength(number(tick)) for one in column for tick in _y_ticks(one)), default=0.0)
        left = edge + _USUAL + words + 2 * _GAP + _TICK
        right = (index + 1) * size[0] / len(columns) - 2 * _GAP
        above = float(top)
        for panel, share in zip(column, heights, strict=True):
            found.append((panel, _Box(left, above, right, above + share * height, edge)))
            above += share * height + 2 * _GAP
    return found


def _y_ticks(panel: Panel) -> list[float]:
    return panel.y_ticks if panel.y.size else []


def _x_ticks(panel: Panel) -> list[float]:
    return ticks(0.0, panel.x_end, 8)


def _across(panel: Panel, box: _Box, x: float) -> float:
    return box.left + x / panel.x_end * (box.right - box.left)


def _down(panel: Panel, box: _Box, y: float) -> float:
    low, high = panel.y_range
    return box.bottom - (y - low) / (high - low) * (box.bottom - box.top)


def _draw_lines(draw: ImageDraw.ImageDraw, panel: Panel, box: _Box) -> None:
    def line(points: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        large = [(x * _FINE, y * _FINE) for x, y in points]
        draw.line(large, colour, max(1, round(width * _FINE)), joint="curve")

    for tick in _x_ticks(panel):
        x = _across(panel, box, tick)
        line([(x, box.top), (x, box.bottom)], _GRID, 1)
        line([(x, box.bottom), (x, box.bottom + _TICK)], _GREY, 1)
    for tick in _y_ticks(panel):
        y = _down(panel, box, tick)
        line([(box.left, y), (box.right, y)], _GRID, 1)
        line([(box.left - _TICK, y), (box.left, y)], _GREY, 1)
    line([(box.left, box.top), (box.left, box.bottom), (box.right, box.bottom)], _GREY, 1)
    if not panel.y.size:
        return
    if panel.goal is not None:
        y = _down(panel, box, panel.goal)
        for start in np.arange(box.left, box.right, 9):
            line([(float(start), y), (min(float(start) + 6, box.right), y)], _GREY, 1.5)
    points = _points(panel, box)
    if len(points) == 1:
        ((x, y),) = points
        draw.ellipse([_FINE * one for one in (x - 4, y - 4, x + 4, y + 4)], panel.colour)
    else:
        line(points, panel.colour, panel.width)


def _points(panel: Panel, box: _Box) -> list[tuple[float, float]]:
    x, y = thinned(panel.x, panel.y, panel.x_end, round(box.right - box.left))
    if panel.steps and x.size > 1:
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    return [
        (_across(panel, box, one), _down(panel, box, other)) for one, other in zip(x.tolist(), y.tolist(), strict=True)
    ]


def _draw_words(picture: Image.Image, draw: ImageDraw.ImageDraw, panel: Panel, box: _Box) -> None:
    for tick in _y_ticks(panel):
        draw.text((box.left - _TICK - 3, _down(panel, box, tick)), number(tick), _INK, _font(_SMALL), anchor="rm")
    middle = (box.left + box.right) / 2
    if panel.x_label:
        for tick in _x_ticks(panel):
            where = (_across(panel, box, tick), box.bottom + _TICK + 3)
            draw.text(where, number(tick), _INK, _font(_SMALL), anchor="ma")
        draw.text((middle, box.bottom + _TICK + _SMALL + _GAP), panel.x_label, _INK, _font(_USUAL), anchor="ma")
    if panel.y_label:
        upright = Image.new("L", (math.ceil(_font(_USUAL).getlength(panel.y_label)) + 2, 2 * _USUAL))
        ImageDraw.Draw(upright).text((1, 0), panel.y_label, 255, _font(_USUAL))
        turned = upright.rotate(90, expand=True)
        picture.paste(_INK, (round(box.edge), round((box.top + box.bottom - turned.height) / 2)), turned)
    if panel.y.size and panel.goal is not None:
        where = (box.left + 6, _down(panel, box, panel.goal) + 4)
        draw.text(where, f"goal {panel.goal:g}", _GREY, _font(_SMALL), anchor="la")
    if not panel.y.size:
        draw.text((middle, (box.top + box.bottom) / 2), panel.note, _GREY, _font(_USUAL), anchor="mm")


def _font(height: int) -> Font:
    return ImageFont.load_default(height)
