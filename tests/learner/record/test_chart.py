from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from learner.record.chart import Panel, number, png, thinned, ticks

RED = "#ff0000"
Picture = NDArray[np.uint8]


def panel(x: list[float], y: list[float], **given: Any) -> Panel:
    return Panel(np.array(x, float), np.array(y, float), **{"x_end": 10.0, "colour": RED, **given})


def drawn(*panels: Panel) -> Picture:
    """(300, 400, 3)"""
    picture = png("title", [list(panels)], (400, 300), [1] * len(panels))
    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"))


def red(picture: Picture) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns in which the curve is."""
    rows, columns = np.nonzero((picture[..., 0] > 200) & (picture[..., 1] < 80) & (picture[..., 2] < 80))
    return rows, columns


def test_a_curve_that_rises_is_drawn_from_below_at_the_left_to_above_at_the_right() -> None:
    rows, columns = red(drawn(panel([1, 9], [0, 5])))
    assert rows[columns == columns.min()].min() > 150 > rows[columns == columns.max()].max()
    assert columns.max() - columns.min() == pytest.approx(0.8 * 315, abs=25)


def test_a_value_holds_until_the_next_in_a_curve_of_steps() -> None:
    rows, columns = red(drawn(panel([0, 8, 9], [1, 1, 2], steps=True, counts=True)))
    early = rows[columns < columns.min() + 100]
    assert early.max() - early.min() <= 4, "level"
    assert rows.max() - rows.min() > 50


def test_one_value_is_a_point() -> None:
    rows, columns = red(drawn(panel([5], [3])))
    assert 5 <= np.ptp(rows) <= 9 and 5 <= np.ptp(columns) <= 9


def test_without_values_there_is_a_note() -> None:
    with_note, without = drawn(panel([], [], note="nothing yet", goal=3.0)), drawn(panel([], []))
    assert red(with_note)[0].size == 0
    changed = np.nonzero((with_note != without).any(axis=2))
    assert 100 < changed[0].mean() < 200 and 150 < changed[1].mean() < 300


def test_the_goal_is_inside_the_axes() -> None:
    low, high = panel([0, 1], [10, 20], goal=475.0).y_range
    assert low < 10 and high > 475
    assert not np.array_equal(drawn(panel([0, 1], [10, 20])), drawn(panel([0, 1], [10, 20], goal=15.0)))


def test_equal_values_have_a_range_too() -> None:
    for value in (0.0, 7.0, -3.0, 1e9):
        low, high = panel([0, 1], [value, value]).y_range
        assert low < value < high


def test_counts_begin_at_0_and_are_whole() -> None:
    one = panel([0, 1], [2, 2], counts=True)
    assert one.y_range[0] == 0
    assert one.y_ticks == [0, 1, 2]


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0.0, 10.0, 5, [0, 2, 4, 6, 8, 10]),
        (-0.3, 0.3, 4, [-0.2, 0, 0.2]),
        (0.0, 100.0, 4, [0, 25, 50, 75, 100]),
        (61.0, 520.0, 5, [100, 200, 300, 400, 500]),
    ],
)
def test_ticks(low: float, high: float, most: int, expected: list[float]) -> None:
    assert ticks(low, high, most) == pytest.approx(expected)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(1, 10), st.booleans())
def test_ticks_are_few_and_inside(low: float, length: float, most: int, whole: bool) -> None:
    high = low + length
    if high - low < 1e-9 * abs(high):
        return
    found = ticks(low, high, most, whole=whole)
    assert len(found) <= most + 1
    slack = 1e-6 * max(length, float(whole))
    assert all(low - slack <= tick <= high + slack for tick in found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1e-17, "0"), (0.25, "0.25"), (-20.0, "-20"), (2500.0, "2500"), (25e3, "25k"), (1.25e6, "1.25M")],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_a_long_curve_is_thinned_and_keeps_its_extremes() -> None:
    x = np.linspace(0.0, 10.0, 50_000)
    y = np.random.default_rng(0).normal(size=x.size)
    few_x, few_y = thinned(x, y, 10.0, 300)
    assert few_x.size <= 4 * 301
    assert (np.diff(few_x) > 0).all()
    for edge in range(300):
        inside = (x * 30 >= edge) & (x * 30 < edge + 1)
        kept = (few_x * 30 >= edge) & (few_x * 30 < edge + 1)
        assert (y[inside].min(), y[inside].max()) == (few_y[kept].min(), few_y[kept].max())


def test_a_short_curve_is_drawn_as_it_is() -> None:
    x = np.arange(5.0)
    assert thinned(x, x, 10.0, 300)[0] is x
