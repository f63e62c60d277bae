from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.tracking.follow import Follower, Outcome
from deploy.tracking.tracker import Target
from tests.helpers.command_line import a3cd
from tests.helpers.run_folders import run_folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a library that is there."""
    for kind in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, kind, sys)
    return run_folder(tmp_path / "x")


def test_what_is_followed_and_where_to(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []

    def make(self: Follower, *words: Any) -> None:
        made.append(words)

    monkeypatch.setattr(Follower, "__init__", make)
    monkeypatch.setattr(Follower, "follow", lambda self, wait: Outcome(1204, "reached"))
    result = a3cd("track", run, "--to", "wandb", "--offline", "--name", "n")
    assert (result.exit_code, result.output) == (0, f"{run}: 1,204 rows told to wandb; the run is reached\n")
    a3cd("track", run, "--to", "mlflow", "--project", "p", "--uri", "sqlite:///x.db")
    assert [(folder.path, *others) for folder, *others in made] == [
        (run, "wandb", Target("a3cd", "", True), "n"),
        (run, "mlflow", Target("p", "sqlite:///x.db"), ""),
    ]


def test_a_signal_ends_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(self: Follower, wait: Any) -> Outcome:
        assert not wait(0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert wait(1000.0)
        return Outcome(7, "running")

    monkeypatch.setattr(Follower, "follow", follow)
    result = a3cd("track", run, "--to", "wandb")
    assert (result.exit_code, result.output) == (143, f"{run}: 7 rows told to wandb; the run is running\n")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--to", "mlflow", "--offline"], 2, "--offline is for wandb"),
        (["--to", "neptune"], 2, "'neptune' is not one of 'wandb', 'mlflow'"),
        ([], 2, "Missing option '--to'"),
    ],
)
def test_mistakes(run: Path, words: list[str], code: int, text: str) -> None:
    result = a3cd("track", run, *words)
    assert result.exit_code == code
    assert text in result.output


@pytest.mark.parametrize("kind", ["wandb", "mlflow"])
def test_without_the_library_the_cure_is_named(
    run: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    assert a3cd("track", run, "--to", kind).exit_code == 78
    assert f"pip install 'a3cd[{kind}]'" in caplog.text


def test_no_run(tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "empty").mkdir()
    assert a3cd("track", tmp_path / "empty", "--to", "wandb").exit_code == 78
    assert "holds no run" in caplog.text
