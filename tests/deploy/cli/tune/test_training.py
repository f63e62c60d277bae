from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from common.errors import UnavailableError
from common.run.folder import RunFolder
from common.settings.toml import read
from deploy.children import Children
from deploy.cli.tune import training
from deploy.cli.tune.training import ChildTraining, command, starter
from tests.helpers.tuning import plan
from tests.helpers.waiting import until

DRAWN = {"optimizer.learning_rate": 0.001}


def test_it_is_a_training_or_a_simulation_of_a_file() -> None:
    config, folder = Path("t/seed-1000.toml"), Path("t/seed-1000")
    words = command(plan(), config, folder)[1:]
    assert words[:4] == ["train", "CartPole-v1", "--config", "t/seed-1000.toml"]
    assert words[-4:] == ["--run-dir", "t/seed-1000", "--json", "--lifeline"]
    assert command(plan(simulate=True), config, folder)[1:3] == ["simulate", "t/seed-1000.toml"]


def test_the_file_has_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "print('09:10:00 a3cd     error: a reason'); raise SystemExit(75)"
    monkeypatch.setattr(training, "a3cd", lambda *words: [sys.executable, "-c", said])
    settings = plan().training(DRAWN, 0)
    with Children() as children:
        started = starter(plan(), children)(settings, tmp_path / "trial" / "seed-1000")
        until(lambda: started.exit_code is not None, "an end")
        assert (started.exit_code, started.last_line, started.rows()) == (75, "a reason", [])
    assert read(tmp_path / "trial" / "seed-1000.toml") == settings


def test_its_rows_are_those_of_the_run_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path).metrics_file.write_text(
        json.dumps({"frames": 5, "mean_return": 2.0}) + "\n" + '{"frames": 6, "me'
    )
    with Children() as children:
        child = children.start([sys.executable, "-c", "input()"], lambda _: None)
        one = ChildTraining(child, tmp_path)
        assert one.rows() == [{"frames": 5, "mean_return": 2.0}]
        assert one.exit_code is None
        one.end()
        assert one.exit_code is not None
        assert one.last_line


def test_a_disk_that_does_not_take_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Children() as children, pytest.raises(UnavailableError, match="no training can be started"):
        starter(plan(), children)(plan().training(DRAWN, 0), tmp_path / "file" / "seed-1000")
