import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.view.formatting import NOTHING, amount, duration, number, share, size, spark


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING),
        (math.nan, NOTHING),
        (-math.inf, NOTHING),
        (1234.5, "1,234"),
        (-1234.5, "-1,234"),
        (87.34, "87.3"),
        (1.234, "1.23"),
        (0.01234, "0.0123"),
        (0.0, "0"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(950, "950"), (12_345, "12.3k"), (1_204_000, "1.2M"), (3e9, "3.0G")])
def test_amount(value: float, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(("octets", "text"), [(0, "0 B"), (999, "999 B"), (12_345, "12.3 kB"), (5.3e9, "5.3 GB")])
def test_size(octets: float, text: str) -> None:
    assert size(octets) == text


def test_share() -> None:
    assert (share(0.342), share(math.nan)) == ("34 %", NOTHING)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, NOTHING), (math.inf, NOTHING), (-3, "0:00"), (65.9, "1:05"), (7629, "2:07:09"), (273_900, "3d 04:05")],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_spark_runs_from_the_lowest_to_the_highest() -> None:
    assert spark([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8) == "▁▂▃▄▅▆▇█"
    assert spark([5.0, 5.0], 8) == "▁▁"
    assert spark([], 8) == ""
    assert spark([math.nan, 1.0, math.inf, 2.0], 8) == "▁█"


def test_spark_averages_what_is_too_long() -> None:
    assert spark([0.0, 2.0, 7.0, 9.0], 2) == "▁█"


@given(st.lists(st.floats(), max_size=300), st.integers(1, 40))
def test_spark_is_never_too_wide_whatever_the_values(values: list[float], width: int) -> None:
    assert len(spark(values, width)) <= width
