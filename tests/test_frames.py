"""The benchmark of frames to a goal: its medians and its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import frames
from benchmarks.runs import Command


def test_who_did_not_reach_the_goal_stands_behind_all_who_did() -> None:
    assert frames.middle([3.0, None, 1.0]) == 3.0
    assert frames.middle([None, None, 1.0]) is None
    assert frames.middle([4.0, 2.0]) == 4.0


def test_medians_of_each_side() -> None:
    pairs: list[frames.Pair] = [
        ((10, 1.0, 5.0), (20, 9.0, 6.0)),
        ((30, 3.0, 7.0), frames.NOTHING),
        ((20, 2.0, 5.0), (10, 5.0, 8.0)),
    ]
    assert frames.medians(pairs) == ((20, 2.0, 5.0), (20, 9.0, 8.0))


def test_a_row_has_the_ratio_of_now_to_before() -> None:
    row = frames.row("CartPole-v1", "median", ((20, 2.0, 7.0), (10, 5.0, 8.0)))
    assert row == ("CartPole-v1", "median", 20, 10, 2.0, 2.0, 5.0, 7.0, 8.0)
    assert len(row) == len(frames.COLUMNS)
    assert frames.row("CartPole-v1", "median", ((20, 2.0, 7.0), frames.NOTHING))[4] is None


def test_a_command_runs_another_checkouts_code(tmp_path: Path) -> None:
    (tmp_path / "deploy" / "cli").mkdir(parents=True)
    (tmp_path / "deploy" / "cli" / "command.py").write_text("import sys; sys.exit('of another checkout')")
    for package in (tmp_path / "deploy", tmp_path / "deploy" / "cli"):
        (package / "__init__.py").touch()
    with Command("train", checkout=tmp_path) as command:
        command.process.wait(60.0)
    assert command.lines == ["of another checkout"]


def test_another_checkout_must_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["frames", "--against", str(tmp_path)])
    with pytest.raises(SystemExit, match="is no checkout of a3cd"):
        frames.main()
