from __future__ import annotations

from pathlib import Path

import pytest

from common.settings.sections import Settings
from common.settings.toml import override
from deploy.cli import preflight
from deploy.cli.dry_run import training
from deploy.cli.request import TrainRequest
from learner.record.run_lock import create


@pytest.mark.parametrize("evaluated", [True, False])
def test_what_would_be_started(
    evaluated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "check", lambda *_: None)
    settings = override(
        Settings(), ["environment.id=my_envs:Grid", "network.kind=nets:Small", f"evaluation.episodes={20 * evaluated}"]
    )
    training(TrainRequest(settings, tmp_path, resume=False, trackers=("wandb",)), as_json=False)
    shown = capsys.readouterr().out
    assert 'id = "my_envs:Grid"' in shown
    assert "--name here --allow-module my_envs --allow-module nets\n      actors on this machine: 2\n" in shown
    assert ("a3cd evaluator" in shown) == evaluated
    assert f"a3cd track {tmp_path} --to wandb\n      once the run has begun\n" in shown
    assert "over" not in shown


def test_a_run_that_is_over_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "why_over", lambda *_: "500 of 500 frames")
    create(tmp_path, Settings()).close()
    training(TrainRequest(Settings(), tmp_path, resume=True), as_json=False)
    assert f"Run folder: {tmp_path} (the run there is over: 500 of 500 frames)" in capsys.readouterr().out
