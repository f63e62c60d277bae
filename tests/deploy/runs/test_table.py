"""Runs are read from their folders; the broken ones are named, and the others are there all the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host import file_lock
from deploy.runs.table import RunRow, read_table
from tests.helpers.run_folders import run_folder


def only(folder: Path) -> RunRow:
    table = read_table([folder])
    assert table.broken == []
    (run,) = table.runs
    return run.row


def test_a_run_that_is_over(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "a", "seed=3", "algorithm.kind=ppo", summary={"best_evaluation": 9.0})
    row = only(tmp_path)
    assert (row.run, row.env, row.algorithm, row.seed, row.state) == (str(path), "CartPole-v1", "ppo", 3, "reached")
    assert (row.frames, row.seconds, row.episodes) == (2000, 2.0, 1)
    assert (row.mean_return, row.best_return, row.best_evaluation) == (20.0, 30.0, 9.0)


def test_one_that_was_killed_has_the_figures_of_its_last_row(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "a")
    checkpoint = path / "checkpoints" / "0000000007"
    checkpoint.mkdir(parents=True)
    figures = dict.fromkeys(("std", "median", "interquartile_mean", "minimum", "maximum", "frames", "seconds"), 1)
    evaluation = {"episodes": 5, "mean": 12.0, "low": 11.0, "high": 13.0, "version": 7, **figures}
    state = {"version": 7, "score": 1.0, "state": {}, "checksums": {}, "evaluation": evaluation}
    (checkpoint / "state.json").write_text(json.dumps(state))
    (path / "checkpoints" / "0000000008").mkdir()
    row = only(path)
    assert (row.state, row.frames, row.mean_return, row.best_return) == ("interrupted", 2000, 20.0, None)
    assert (row.best_evaluation, row.best_evaluation_low, row.best_evaluation_version) == (12.0, 11.0, 7)


def test_one_that_goes_on_is_running_whatever_it_said_before(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "a", epoch=2, summary={})
    assert only(path).state == "interrupted"
    with (path / "lock").open("w") as lock:
        file_lock.lock(lock, wait=False)
        assert only(path).state == "running"
    assert only(path).state == "interrupted"


def test_one_that_has_hardly_begun_has_no_figures(tmp_path: Path) -> None:
    row = only(run_folder(tmp_path / "a", returns=()))
    assert (row.state, row.frames, row.seconds, row.mean_return) == ("interrupted", None, None, None)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "run.json cut": (lambda path: (path / "run.json").write_text("{"), r"run\.json: cannot be read"),
    "run.json gone": (lambda path: (path / "run.json").unlink(), "holds no run"),
    "settings of an earlier version": (
        lambda path: (path / "settings.toml").write_text("[environment]\ncopies = 3"),
        "environment.copies is no setting; it is environment.num_envs now",
    ),
    "settings gone": (lambda path: (path / "settings.toml").unlink(), r"settings\.toml: No such file"),
    "summary no JSON": (lambda path: (path / "summary.json").write_bytes(b"\xff"), r"summary\.json: cannot be read"),
    "summary no figures": (
        lambda path: (path / "summary.json").write_text('{"epoch": 1, "frames": "many"}'),
        r"summary\.json: Expected `int \| null`, got `str`",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_run_does_no_harm(damage: str, tmp_path: Path) -> None:
    for number in range(3):
        run_folder(tmp_path / f"r{number}", f"seed={number}", summary={})
    do, why = DAMAGE[damage]
    do(tmp_path / "r1")
    table = read_table([tmp_path])
    assert [run.row.seed for run in table.runs] == [0, 2]
    (told,) = table.broken
    assert str(tmp_path / "r1") in told
    assert re.search(why, told)


def test_metrics_that_are_none_are_no_figures(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "a")
    (path / "metrics.jsonl").write_bytes(b'\x00\n{}\n[1]\n{"frames": "x"}\n')
    assert only(path).frames is None


def test_each_run_once_and_in_order(tmp_path: Path) -> None:
    for seed in (10, 9):
        run_folder(tmp_path / f"r{seed}", f"seed={seed}", summary={})
    run_folder(tmp_path / "a", "algorithm.kind=ppo", summary={})
    (tmp_path / "latest").symlink_to("r9")
    table = read_table([tmp_path, tmp_path / "r9", tmp_path / "a" / ".."])
    assert [(run.row.algorithm, run.row.seed) for run in table.runs] == [("a3c", 9), ("a3c", 10), ("ppo", 0)]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        read_table([tmp_path / "x"])
