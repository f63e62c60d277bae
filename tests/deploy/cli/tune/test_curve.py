from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.tune.curve import marks, mean, points
from tests.helpers.tuning import plan

CURVE = [(10.0, 0.0), (20.0, 10.0), (40.0, 10.0)]


def test_the_mean_is_of_lines_between_the_points_level_at_both_ends() -> None:
    assert mean(CURVE, 5) == 0
    assert mean(CURVE, 10) == 0
    assert mean(CURVE, 15) == pytest.approx(5 * 2.5 / 15)
    assert mean(CURVE, 40) == pytest.approx((5 * 10 + 20 * 10) / 40)
    assert mean(CURVE, 80) == pytest.approx((5 * 10 + 60 * 10) / 80)
    assert mean([(0.0, 3.0)], 7) == 3
    for curve, end in (([], 1.0), (CURVE, 0.0)):
        with pytest.raises(ValueError, match="a curve has a point"):
            mean(curve, end)


numbers = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(st.floats(0.01, 1e6), numbers), min_size=1, unique_by=lambda one: one[0]), st.floats(0.1, 1e6)
)
def test_a_mean_is_between_the_least_and_the_most(curve: list[tuple[float, float]], end: float) -> None:
    returns = [value for _, value in curve]
    assert min(returns) - 1e-3 <= mean(sorted(curve), end) <= max(returns) + 1e-3


def test_marks_are_the_same_whenever_one_looks() -> None:
    assert marks([], 40, 4) == []
    assert marks(CURVE[:1], 40, 4) == [0]
    assert marks(CURVE[:2], 40, 4) == [mean(CURVE, 10), mean(CURVE, 20)]
    assert marks(CURVE, 40, 4) == [mean(CURVE, end) for end in (10, 20, 30, 40)]
    assert marks([*CURVE, (50.0, 99.0)], 40, 4) == marks(CURVE, 40, 4), "what was played beyond the limit"


def test_a_training_return_is_where_it_was_measured() -> None:
    rows: list[dict[str, Any]] = [
        {"frames": 0, "seconds": 0.0, "mean_return": None},
        {"frames": 100, "seconds": 1.0, "mean_return": 20.0},
        {"frames": 300, "seconds": 2.0, "mean_return": 25.0, "evaluation_return": 99.0, "evaluation_frames": 200},
    ]
    assert points(rows, plan(frames=500)) == [(100, 20), (300, 25)]
    assert points(rows, plan(frames=None, seconds=9.0)) == [(1, 20), (2, 25)]


def test_an_evaluation_counts_once_where_its_weights_were() -> None:
    def row(seconds: float, evaluated_at: float, value: float) -> dict[str, Any]:
        return {"seconds": seconds, "mean_return": 1.0, "evaluation_seconds": evaluated_at, "evaluation_return": value}

    rows = [{"seconds": 20.0, "mean_return": 1.0}, row(30, 22, 50.0), row(31, 22, 50.0), row(60, 52, 80.0)]
    assert points(rows, plan(frames=None, seconds=120.0, score="evaluation")) == [(22, 50), (52, 80)]
