import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.meters import BUCKETS, LARGEST_LAG, Busy, LagMeter, Rate, Smoothed, rate_seconds
from tests.helpers.run import settings_of


def test_rate_of_a_steady_stream() -> None:
    rate = Rate(5.0, now=100.0)
    for event in range(1000):
        rate.add(100.0 + event / 100)
    assert rate.value(110.0) == pytest.approx(100.0, rel=1 / BUCKETS)


def test_rate_counts_from_the_start_until_the_window_is_full() -> None:
    rate = Rate(10.0, now=0.0)
    rate.add(1.0, amount=30.0)
    assert rate.value(3.0) == pytest.approx(10.0)


def test_rate_of_the_first_instant_is_not_infinite() -> None:
    rate = Rate(5.0, now=7.0)
    rate.add(7.0)
    assert rate.value(7.0) == pytest.approx(1 / (5.0 / BUCKETS))


@pytest.mark.parametrize("assignment", ["algorithm.kind=ppo", "staleness.policy=synchronous"])
def test_rates_of_synchronous_runs_do_not_fall_to_0_between_two_steps(assignment: str) -> None:
    window = rate_seconds(settings_of(assignment))
    assert window > rate_seconds(settings_of())
    rate = Rate(window, now=0.0)
    for step in range(10):
        rate.add(10.0 * step, amount=8000.0)
        assert rate.value(10.0 * step + 9.0) >= 400.0


def test_rate_forgets_what_is_older_than_the_window() -> None:
    rate = Rate(5.0, now=0.0)
    rate.add(1.0, amount=1000.0)
    rate.add(4.0, amount=5.0)
    assert rate.value(8.0) == pytest.approx(5.0 / 5.0, rel=1 / BUCKETS)
    assert rate.value(9.9) == 0.0
    assert rate.value(1e9) == 0.0


def test_rate_survives_a_clock_that_steps_back() -> None:
    rate = Rate(5.0, now=100.0)
    rate.add(101.0)
    rate.add(100.9)
    assert rate.value(101.0) == pytest.approx(2.0)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60))
def test_rate_equals_a_count_over_the_last_seconds(gaps: list[float]) -> None:
    rate, now, times = Rate(5.0, now=0.0), 0.0, []
    for gap in gaps:
        now += gap
        rate.add(now)
        times.append(now)
    width = 5.0 / BUCKETS
    slot = math.floor(now / width)
    counted = sum(math.floor(time / width) >= slot - BUCKETS for time in times)
    covered = max(now - max(0.0, (slot - BUCKETS) * width), width)
    assert rate.value(now) == pytest.approx(counted / covered)


def test_busy_recent_and_overall() -> None:
    busy = Busy(5.0, now=0.0)
    for second in range(1, 101):
        busy.working(float(second), 0.2 if second <= 50 else 0.9)
    assert busy.overall(100.0) == pytest.approx(0.55)
    assert busy.recent(100.0) == pytest.approx(0.9, rel=0.2)


def test_busy_is_a_fraction() -> None:
    busy = Busy(5.0, now=0.0)
    assert (busy.recent(0.0), busy.overall(0.0)) == (0.0, 0.0)
    busy.working(1.0, 50.0)
    assert (busy.recent(1.0), busy.overall(1.0)) == (1.0, 1.0)


def test_lag_of_the_window_and_of_the_run() -> None:
    meter = LagMeter(window=100)
    assert meter.recent() == meter.overall() == (0.0, 0.0)
    for _ in range(900):
        meter.add(1)
    for lag in range(1, 101):
        meter.add(lag)
    assert meter.recent() == (50.5, 95.0)
    assert meter.overall() == (pytest.approx((900 + 5050) / 1000), 50.0)


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 100), min_size=1, max_size=200))
def test_p95_of_the_run_is_the_nearest_rank_up_to_the_largest_lag(lags: list[int]) -> None:
    meter = LagMeter(window=4)
    for lag in lags:
        meter.add(lag)
    truth = sorted(lags)[math.ceil(len(lags) * 95 / 100) - 1]
    assert meter.overall()[1] == min(truth, LARGEST_LAG)
    assert meter.recent()[0] == pytest.approx(fmean(lags[-4:]))


def test_smoothed_starts_at_the_first_figure_and_moves_towards_the_next() -> None:
    losses = Smoothed(weight=0.1)
    losses.add({"policy_loss": 1.0, "entropy": 5.0})
    losses.add({"policy_loss": 2.0})
    assert losses.values == {"policy_loss": pytest.approx(1.1), "entropy": 5.0}


def test_one_liar_among_ten_does_not_drown_the_losses_and_a_real_change_passes() -> None:
    generator, losses = random.Random(0), Smoothed()
    for number in range(5000):
        losses.add({"entropy": 1e30 if number % 10 == 0 and number > 50 else generator.gauss(0.6, 0.1)})
    assert 0.5 < losses.values["entropy"] < 1.5
    for _ in range(1000):
        losses.add({"entropy": generator.gauss(500.0, 10.0)})
    assert losses.values["entropy"] == pytest.approx(500.0, abs=20.0)


def test_a_figure_that_was_0_for_long_follows_a_change_though_there_is_a_liar() -> None:
    losses = Smoothed()
    for _ in range(100):
        losses.add({"clip_fraction": 0.0})
    losses.add({"clip_fraction": 1e30})
    assert losses.values["clip_fraction"] < 1e-6
    for _ in range(1000):
        losses.add({"clip_fraction": 0.2})
    assert losses.values["clip_fraction"] == pytest.approx(0.2, abs=0.01)
