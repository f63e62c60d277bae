"""The benchmark of many synthetic actors: its medians and its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import against, swarm


def test_figures_of_a_side_are_medians_over_its_turns() -> None:
    assert swarm.medians([{"a": 1, "b": 9.0}, {"a": 5, "b": 7.0}, {"a": 3, "b": 8.0}]) == {"a": 3, "b": 8.0}


def test_a_row_has_the_ratio_where_there_is_another_side() -> None:
    assert swarm.rows([{"lag_mean": 2.0}]) == [("lag mean", 2.0)]
    assert swarm.rows([{"lag_mean": 2.0}, {"lag_mean": 8.0}]) == [("lag mean", 2.0, 8.0, 0.25)]
    assert swarm.rows([{"stale": 2}, {"stale": 0}]) == [("stale", 2, 0, None)]


def test_another_checkout_must_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["swarm", "--against", str(tmp_path)])
    with pytest.raises(SystemExit, match="is no checkout of a3cd"):
        swarm.main()


def test_a_ratio_needs_both() -> None:
    assert against.ratio(3.0, 2.0) == 1.5
    assert against.ratio(None, 2.0) is None
    assert against.ratio(3.0, None) is None
