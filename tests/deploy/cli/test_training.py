"""The command line of `a3cd train`; the part that trains is a stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from common.run import presets
from common.settings.sections import Settings
from deploy.cli import training
from deploy.cli.request import TrainRequest
from learner.record.run_lock import create
from tests.helpers.command_line import a3cd


def test_train(stand: Any, tmp_path: Path) -> None:
    run = stand("deploy.cli.train.train", 143)
    result = a3cd("train", "CartPole-v1", "--actors", "2..4", "--set", "seed=3", "--run-dir", tmp_path / "x", "--json")
    assert result.exit_code == 143
    (request,) = run.arguments
    assert isinstance(request, TrainRequest)
    assert (request.settings.seed, request.slots, request.run_dir) == (3, 4, tmp_path / "x")
    assert run.options == {"as_json": True}


def test_trackers_are_there_before_anything_begins(
    stand: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = stand("deploy.cli.train.train")
    words = ("train", "CartPole-v1", "--run-dir", tmp_path / "x", "--track", "wandb", "--track", "mlflow")
    for kind in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, kind, pytest)
    assert a3cd(*words).exit_code == 0
    assert run.arguments[0].trackers == ("wandb", "mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    run.answer = AssertionError()
    assert a3cd(*words).exit_code == 78
    assert "pip install 'a3cd[mlflow]'" in caplog.text


def test_a_file_or_a_run_names_the_environment_itself(stand: Any, tmp_path: Path) -> None:
    run = stand("deploy.cli.train.train")
    file = tmp_path / "run.toml"
    file.write_text('environment.id = "Acrobot-v1"\nseed = 4')
    assert a3cd("train", "--config", file).exit_code == 0
    (request,) = run.arguments
    assert (request.settings.environment.id, request.settings.seed) == ("Acrobot-v1", 4)
    assert request.run_dir.name.startswith("Acrobot-v1-")
    create(tmp_path / "run", Settings(seed=7)).close()
    assert a3cd("train", "--resume", "--run-dir", tmp_path / "run").exit_code == 0
    (request,) = run.arguments
    assert (request.settings.seed, request.resume) == (7, True)


def test_without_an_environment_all_presets_are_told(stand: Any) -> None:
    stand("deploy.cli.train.train", AssertionError())
    result = a3cd("train", "--actors", 2)
    assert (result.exit_code, result.stdout) == (2, "")
    *listed, told = result.stderr.splitlines()
    assert [name for name in presets.names() if not any(f"  {name}  " in line for line in listed)] == []
    assert "train what? `a3cd train CartPole-v1`, another of these" in told


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [("", "CartPole-v1"), ("1", presets.names()[0]), ("Taxi-v3", "Taxi-v3"), ("99", "99")],
)
def test_at_a_terminal_one_may_choose(answer: str, chosen: str, monkeypatch: pytest.MonkeyPatch, stand: Any) -> None:
    prompt = stand("click.prompt", answer or training.FIRST)
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    assert training.chosen() == chosen
    assert prompt.options == {"default": "CartPole-v1", "err": True}


def test_a_dry_run_says_what_would_be_started(stand: Any, tmp_path: Path) -> None:
    stand("deploy.cli.train.train", AssertionError())
    run = tmp_path / "run"
    words = ("train", "CartPole-v1", "--actors", "2..5", "--run-dir", run, "--dry-run")
    result = a3cd(*words)
    assert result.exit_code == 0
    assert "reward_scale = 0.1" in result.output and "num_envs" not in result.output, "what differs from the defaults"
    assert f"a3cd learner --bind tcp://127.0.0.1:5555 --run-dir {run} --no-curve" in result.output
    assert "a3cd launcher tcp://127.0.0.1:5555 --insecure --slots 5 --prestart 2 --name here" in result.output
    assert "actors on this machine: 2 to 5" in result.output
    assert not run.exists()
    told = json.loads(a3cd(*words, "--json").output)
    assert (told["actors"], told["slots"], set(told["commands"])) == (2, 5, {"learner", "launcher", "evaluator"})
    assert a3cd("train", "CartPol-v1", "--dry-run").exit_code == 78
