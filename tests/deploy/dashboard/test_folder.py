from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from deploy.dashboard.folder import GOES_ON_SECONDS, FolderReader


def write(file: Path, *rows: dict[str, Any], end: str = "\n") -> None:
    with file.open("a") as opened:
        opened.write("\n".join(json.dumps(row) for row in rows) + end)


def run_folder(path: Path, **summary: Any) -> Path:
    (path / "run.json").write_text(
        '{"run": "ab12", "created": "2026-01-01", "epoch": 2, "a3cd": "0.2.0", "host": "lab"}'
    )
    (path / "settings.toml").write_text('seed = 7\n[environment]\nid = "CartPole-v1"\n')
    write(
        path / "metrics.jsonl",
        *({"time": 9.0 + n, "seconds": float(n), "frames": 10 * n, "actors": 2} for n in range(3)),
    )
    if summary:
        (path / "summary.json").write_text(json.dumps({"epoch": 2} | summary))
    return path


def test_a_run_that_has_ended(tmp_path: Path) -> None:
    reader = FolderReader(
        run_folder(tmp_path, state="reached", frames=20, best_evaluation=None, checkpoint=5, lag_p95=2.0)
    )
    past = reader.past()
    figures = reader.figures()
    assert len(past.history) == 3
    assert "CartPole-v1" in past.settings
    assert (figures["state"], figures["env"], figures["seed"], figures["epoch"]) == ("reached", "CartPole-v1", 7, 2)
    assert (figures["checkpoint"], figures["best_evaluation"], figures["lag_p95"]) == ({"version": 5}, None, 2.0)


def test_a_run_without_a_summary_goes_on_or_was_interrupted(tmp_path: Path) -> None:
    reader = FolderReader(run_folder(tmp_path))
    reader.past()
    assert reader.figures()["state"] == "running"
    long_ago = tmp_path.stat().st_mtime - 2 * GOES_ON_SECONDS
    os.utime(tmp_path / "metrics.jsonl", (long_ago, long_ago))
    assert reader.figures()["state"] == "interrupted"


def test_the_summary_of_an_epoch_before_is_not_of_the_run_as_it_is(tmp_path: Path) -> None:
    reader = FolderReader(run_folder(tmp_path, state="stopped", frames=20, epoch=1))
    reader.past()
    assert reader.figures()["state"] == "running"


def test_the_best_evaluation_and_the_last_one(tmp_path: Path) -> None:
    best = {"best_evaluation": 9.0, "best_evaluation_low": 8.0, "best_evaluation_high": 10.0}
    run_folder(tmp_path, state="finished", frames=100, **best, best_evaluation_episodes=40, best_evaluation_version=3)
    write(
        tmp_path / "metrics.jsonl",
        {"time": 99.0, "seconds": 9.0, "frames": 90, "evaluation_return": 7.0, "evaluation_low": 6.0},
    )
    reader = FolderReader(tmp_path)
    reader.past()
    figures = reader.figures()
    assert figures["best_evaluation"] == {"mean": 9.0, "low": 8.0, "high": 10.0, "episodes": 40, "version": 3}
    assert (figures["evaluation"]["mean"], figures["evaluation"]["low"]) == (7.0, 6.0)


def test_settings_of_another_version_do_not_hide_the_rest(tmp_path: Path) -> None:
    run_folder(tmp_path)
    (tmp_path / "settings.toml").write_text("nonsense = 1\n")
    reader = FolderReader(tmp_path)
    assert reader.past().settings == "nonsense = 1\n"
    assert reader.figures()["run"] == "ab12"


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        FolderReader(tmp_path).record()
