from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.errors import UnavailableError
from common.run.status import summary
from common.settings.sections import Settings
from common.settings.toml import parse
from deploy.cli import preflight
from deploy.cli.train import train
from learner.record.run_lock import create
from tests.helpers.stage import Stage, ends, planned, write_summary
from tests.helpers.status import run_status


def test_to_the_end(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def launcher_leaves() -> None:
        stage.launcher.exit_code = 0

    stage.looks = [lambda: None, run_status, launcher_leaves, ends(stage, 0, run_status(state="reached"))]
    one = planned(run_dir=tmp_path / "x", actors=(2, 5))
    assert train(one, as_json=True) == 0
    assert stage.learner.arguments[0] == "learner"
    assert stage.learner.option("--bind") == str(stage.address)
    assert stage.handed == [stage.address.port, stage.address.port + 1]
    assert parse(stage.settings.read(), "") == one.settings
    assert "--resume" not in stage.learner.arguments
    expected = ("launcher", str(stage.address), "--insecure", "--slots", "5", "--prestart", "2", "--name", "here")
    assert stage.launcher.arguments == expected
    assert not stage.launcher.asked, "the learner told it"
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert result | {"seconds": 0} == summary(run_status(state="reached")) | {"seconds": 0, "exit_code": 0}
    assert result["seconds"] > 0
    assert shown.err.startswith("a line\na line\n")


def test_a_learner_that_is_refused_prints_no_result(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder has the result of the run that it holds."""
    write_summary(tmp_path, run_status())
    stage.looks = [ends(stage, 78)]
    assert train(planned(run_dir=tmp_path), as_json=True) == 78
    assert capsys.readouterr().out == ""
    assert stage.launcher.asked


def test_a_run_that_is_over_is_not_started_again(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(tmp_path, Settings()).close()
    write_summary(tmp_path, run_status(state="reached"))
    monkeypatch.setattr(preflight, "why_over", lambda *_: "500 of 500 frames")
    assert train(planned(run_dir=tmp_path, resume=True), as_json=True) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == summary(run_status(state="reached")) | {"exit_code": 0}, "with the run's seconds"
    assert shown.err == f"{tmp_path}: the run is over: 500 of 500 frames; it goes on with a higher limit or goal\n"
    assert stage.children == []


def test_a_run_without_a_frame_is_no_success(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage.looks = [ends(stage, 0, run_status(state="finished", frames=0))]
    with pytest.raises(UnavailableError, match="over before its first frame"):
        train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert json.loads(capsys.readouterr().out)["exit_code"] == 75


def test_the_result_in_words(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage.looks = [ends(stage, 75, run_status(state="stopped", run_dir=str(tmp_path / "x")))]
    assert train(planned(run_dir=tmp_path / "x"), as_json=False) == 75
    assert "  saved     there is no checkpoint\n" in capsys.readouterr().out
