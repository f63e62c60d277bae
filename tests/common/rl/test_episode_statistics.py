"""Statistics of returns against a second, plain way to compute them, and against samples of a known mean."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.rl.episode_statistics import return_statistics, student

RETURNS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(RETURNS)
def test_against_the_plain_way(returns: list[float]) -> None:
    found = return_statistics(returns)
    close = {"rel": 1e-9, "abs": 1e-6}
    assert (found.episodes, found.minimum, found.maximum) == (len(returns), min(returns), max(returns))
    assert found.mean == pytest.approx(statistics.fmean(returns), **close)
    assert found.median == pytest.approx(statistics.median(returns), **close)
    assert found.std == pytest.approx(statistics.pstdev(returns), **close)
    left = sorted(returns)
    for _ in range(len(returns) // 4):
        left = left[1:-1]
    assert found.interquartile_mean == pytest.approx(statistics.fmean(left), **close)


def test_of_one_episode_there_is_no_interval() -> None:
    found = return_statistics([7.0])
    assert (found.mean, found.low, found.high, found.std) == (7.0, None, None, 0.0)


def test_the_interval_is_students() -> None:
    """Student's own sample of 1908: extra hours of sleep, mean 1.58, interval 0.7 to 2.46."""
    found = return_statistics([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert (found.mean, found.low, found.high) == (
        pytest.approx(1.58),
        pytest.approx(0.70, abs=5e-3),
        pytest.approx(2.46, abs=5e-3),
    )


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (19, 2.093), (99, 1.984), (10**6, 1.960)],
)
def test_students_quantiles(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=2e-3)


@pytest.mark.parametrize(("kind", "least"), [("normal", 0.94), ("exponential", 0.90)])
@pytest.mark.parametrize("episodes", [5, 20, 100])
def test_the_interval_holds_the_mean_about_as_often_as_it_says(kind: str, least: float, episodes: int) -> None:
    rng = np.random.default_rng(5)
    held = 0
    samples = rng.normal(1.0, 3.0, (2000, episodes)) if kind == "normal" else rng.exponential(1.0, (2000, episodes))
    for sample in samples:
        found = return_statistics(list(sample))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.0 <= found.high
    lower = least - (0.04 if (kind, episodes) == ("exponential", 5) else 0.0)
    assert lower <= held / 2000 <= 0.97
