from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.helpers.command_line import a3cd
from tests.helpers.run_folders import run_folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run_folder(Path("runs/a"), "seed=1", summary={"mean_return": 100.0})
    run_folder(Path("runs/b"), "seed=2", summary={"mean_return": 110.0, "best_evaluation": 120.5})
    run_folder(Path("runs/c"), "algorithm.kind=ppo")
    return tmp_path / "runs"


def test_runs_are_listed_and_compared(runs: Path) -> None:
    result = a3cd("runs")
    assert result.exit_code == 0
    lines = [line.split("  ") for line in result.output.splitlines()]
    table = [[cell.strip() for cell in line if cell] for line in lines]
    names = ["run", "environment", "algorithm", "seed", "state", "frames", "time", "return", "best", "evaluation"]
    assert table[0] == names
    assert table[1] == ["runs/a", "CartPole-v1", "a3c", "1", "reached", "2,000", "0:02", "100.0", "30.0", "–"]
    assert table[2][-1] == "120.5"
    assert table[3] == ["runs/c", "CartPole-v1", "ppo", "0", "interrupted", "2,000", "0:02", "20.0", "–", "–"]
    assert table[4] == []
    assert table[5] == ["environment", "group", "seeds", "frames", "return", "best", "evaluation"]
    margin = 12.706205 * 5
    between = f"105.0 ({105 - margin:.1f} to {105 + margin:.1f})"
    assert table[6] == ["CartPole-v1", "a3c", "2", "2,000", between, "30.0 (30.0 to 30.0)", "120.5"]
    assert len(table) == 7


def test_tables_for_programs(runs: Path) -> None:
    rows = list(csv.DictReader(a3cd("runs", "runs", "--csv").stdout.splitlines()))
    assert [(row["run"], row["group"], row["seed"]) for row in rows] == [
        ("runs/a", "a3c", "1"),
        ("runs/b", "a3c", "2"),
        ("runs/c", "ppo", "0"),
    ]
    rows = list(csv.DictReader(a3cd("runs", "--csv-curves").stdout.splitlines()))
    assert [(row["run"], row["frames"], row["lag_mean"]) for row in rows[:2]] == [
        ("runs/a", "1000.0", ""),
        ("runs/a", "2000.0", ""),
    ]
    assert len(rows) == 6


def test_they_are_drawn(runs: Path) -> None:
    result = a3cd("runs", "--plot", "x.svg")
    assert result.stdout.splitlines()[-1] == "x.svg"
    assert Path("x.svg").read_text().startswith("<?xml")
    result = a3cd("runs", "--plot", "y.png", "--csv")
    assert (result.stderr, "y.png" in result.stdout) == ("y.png\n", False)


def test_broken_ones_are_named_and_the_others_listed(runs: Path) -> None:
    (runs / "a" / "run.json").write_text("{")
    result = a3cd("runs")
    assert result.exit_code == 0
    assert result.stderr.startswith("left out: runs/a/run.json: cannot be read")
    assert "runs/b" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing"], "nothing: there is no such folder"),
        (["empty"], "empty: no run in it"),
        (["broken"], "broken: no run that can be read in it"),
        (["--plot", "x.gif"], "a picture is a"),
        (["--plot", "nothing/x.png"], "there is no folder nothing"),
    ],
)
def test_bad_input(runs: Path, arguments: list[str], why: str, caplog: pytest.LogCaptureFixture) -> None:
    Path("empty").mkdir()
    run_folder(Path("broken/a")).joinpath("run.json").unlink()
    assert a3cd("runs", *arguments).exit_code == 78
    assert why in caplog.text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--csv", "--csv-curves"], "give one of them"),
        (["--over", "frames"], "--over is for the picture of --plot"),
        (["--score", "evaluation", "--csv"], "--score is for the picture of --plot"),
    ],
)
def test_options_that_would_change_nothing(runs: Path, arguments: list[str], why: str) -> None:
    result = a3cd("runs", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
