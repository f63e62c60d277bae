"""Series of simulations: what is kept of a run, and that a series goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.simulations import MOST_POINTS, Case, Outcome, Point, curve, grouped, median, run_all
from common.settings.sections import Settings
from common.settings.toml import replace_at

pytestmark = pytest.mark.slow

QUICK = replace_at(
    Settings(),
    {"limits.frames": 600, "environment.num_envs": 1, "scaling.minimum": 2, "scaling.maximum": 2},
)


def test_a_series_keeps_its_outcomes_and_runs_only_what_is_missing(tmp_path: Path) -> None:
    cases = [Case("two actors", replace_at(QUICK, {"seed": seed})) for seed in (0, 1)]
    first = run_all(cases, tmp_path, jobs=1)
    assert [(one.name, one.seed) for one in first] == [("two actors", 0), ("two actors", 1)]
    assert all(600 <= one.end.frames < 700 and one.end.episodes > 0 for one in first)
    kept, other = sorted(tmp_path.glob("*.json"))
    kept.write_bytes(msgspec.json.encode(msgspec.structs.replace(first[0], name="kept")))
    other.unlink()
    again = run_all(cases, tmp_path, jobs=1)
    assert sorted(one.name for one in again) == ["kept", "two actors"]
    assert len(list(tmp_path.iterdir())) == 2


def test_simulations_that_share_a_process_are_those_of_a_process_each(tmp_path: Path) -> None:
    cases = [Case("two actors", replace_at(QUICK, {"seed": seed})) for seed in (0, 1)]
    assert run_all(cases, tmp_path / "shared", each=2) == run_all(cases, tmp_path / "own")


def at(**figures: float) -> Point:
    blank = dict.fromkeys(("seconds", "actor_seconds", "frames", "episodes", "actors", "lag", "busy"), 0)
    return Point(**{"mean_return": None, "length": None} | blank | figures)  # type: ignore[arg-type]


def test_an_outcome_tells_when_a_score_was_reached() -> None:
    outcome = Outcome("one", 0, "", [at(), at(frames=10, mean_return=1.0), at(frames=20, mean_return=5.0)])
    reached = outcome.first(2.0)
    assert reached is not None and reached.frames == 20
    assert outcome.first(9.0) is None
    assert outcome.at(frames=5) == outcome.curve[1] and outcome.at(frames=21) is None


def test_a_run_that_did_not_get_there_counts_as_later_than_all_that_did() -> None:
    outcomes = [Outcome("one", seed, "", [at(seconds=float(seed), mean_return=float(seed))]) for seed in range(3)]
    assert list(grouped(outcomes)) == ["one"]

    def seconds(score: float) -> float | None:
        return median(outcomes, lambda one: reached.seconds if (reached := one.first(score)) else None)

    assert seconds(0.0) == 1.0
    assert seconds(1.0) == 2.0
    assert seconds(2.0) is None


def test_a_long_curve_is_thinned_to_its_end() -> None:
    figures = {"frames": 0, "episodes": 0, "mean_return": None, "episode_length": None, "lag_mean": 0.0}
    rows = [figures | {"seconds": float(second), "actors": 3, "learner_busy": 0.0} for second in range(1001)]
    points = curve(rows)
    assert len(points) <= MOST_POINTS
    assert (points[-1].seconds, points[-1].actor_seconds) == (1000.0, 3000.0)
    assert points[0].seconds < 3.0
