"""What the benchmark of simulated beside real runs makes of their rows."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import simulated


def rows(*figures: tuple[float, int, int]) -> list[dict[str, Any]]:
    """Seconds, frames and episodes each."""
    return [{"seconds": a, "frames": b, "episodes": c, "mean_return": 5.0} for a, b, c in figures]


SUMMARY = {"lag_mean": 1.5, "learner_busy": 0.25}


def test_the_rate_is_that_of_the_second_half_of_the_episodes() -> None:
    found = simulated.figures(rows((1.0, 0, 0), (2.0, 100, 10), (4.0, 500, 20)), SUMMARY)
    assert found == (200.0, 1.5, 0.25, 5.0, 4.0)


def test_simulated_stands_beside_real_with_the_quotient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "real", lambda actors, settings: (100.0, 2.0, 0.0, None, settings["seed"] + 1.0))
    monkeypatch.setattr(simulated, "simulated", lambda actors, settings: (90.0, 2.0, 0.5, 3.0, 2.0))
    lines = simulated.compared(4, [0, 1, 2], {})
    assert [line[:2] for line in lines] == [(4, "real"), (4, "simulated"), (4, "quotient")]
    assert lines[2][2:] == (0.9, 1.0, None, None, 1.0)
