"""What the benchmark of simulated beside real runs makes of their rows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks import simulated


def rows(*figures: tuple[float, int, int]) -> list[dict[str, Any]]:
    """Seconds, frames and episodes each."""
    return [{"seconds": a, "frames": b, "episodes": c, "mean_return": 5.0} for a, b, c in figures]


SUMMARY = {"lag_mean": 1.5, "learner_busy": 0.25, "reached": True, "episodes": 20, "frames": 500}


def test_the_rate_is_that_of_the_second_half_of_the_episodes() -> None:
    some = rows((1.0, 0, 0), (2.0, 100, 10), (4.0, 500, 20))
    assert simulated.figures(some, SUMMARY) == (200.0, 1.5, 20.0, 500.0, 4.0, 0.25)
    assert simulated.figures(some, SUMMARY | {"reached": False}) == (200.0, 1.5, None, None, 4.0, 0.25)


def test_simulated_stands_beside_real_with_what_percent_it_is() -> None:
    real = [(100.0, 2.0, None, 3.0), (100.0, 2.0, None, 5.0), (100.0, 2.0, 7.0, 1.0)]
    lines = simulated.compared(4, real, [(90.0, 2.0, None, 6.0)])
    assert lines == [
        (4, "real", 100.0, 2.0, 7.0, 3.0),
        (4, "simulated", 90.0, 2.0, None, 6.0),
        (4, "percent", 90.0, 100.0, None, 200.0),
    ]
    assert simulated.lowest_and_highest(real, 3) == (1.0, 5.0)
    assert simulated.lowest_and_highest(real[:2], 2) == (None, None)


def test_all_runs_of_a_seed_are_of_that_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "real", lambda actors, settings: (actors, settings["seed"]))
    assert simulated.reals(4, [0, 7], {}) == [(4, 0), (4, 7)]


def test_a_pacer_counts_what_it_lost_since_then() -> None:
    pacer = simulated.Pacer(0.001)
    time.sleep(0.05)
    assert pacer.end(time.time() + 1.0) == 1.0, "nothing is lost before"
    pacer._lost = [(10.0, 1.0), (30.0, 0.5)]
    assert pacer.end(time.time() - 10.0) == 1.0
    pacer._lost = [(time.time(), 5.0)]
    assert pacer.end(time.time() - 10.0) == pytest.approx(0.5, abs=0.2)
