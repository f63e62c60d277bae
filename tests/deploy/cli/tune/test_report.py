from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from common.settings.toml import parse
from deploy.cli.tune import report
from deploy.cli.tune.study import Study, folder_of, open_study
from tests.helpers.tuning import ONE, plan

pytest.importorskip("optuna")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    file = tmp_path / "study.db"
    searched = (*ONE, "network.hidden=[64,64],[128]")
    with open_study(plan(searched=searched, seeds=2, seconds=60.0), file, seed=0) as one:
        folder_of(file).mkdir()
        yield one


def finish(study: Study, score: float) -> dict[str, Any]:
    trial = study.ask()
    for one in (score - 1, score + 1):
        trial.ended(one)
    study.finish(trial, score)
    return trial.values


def shown(found: report.Found) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=120).print(report.table(found))
    return text.getvalue().splitlines()


def test_before_the_first_trial_there_is_nothing_to_train(study: Study) -> None:
    found = report.found(study)
    assert (found.config, found.importance) == ("", {})
    assert report.text(found)[0] == "trials: 1 waiting"
    assert json.loads(report.as_json(found))["config"] is None
    assert list(folder_of(study.file).iterdir()) == []


def test_the_best_trials_with_what_was_trained(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "ROWS", 2)
    finish(study, 10.0)
    best = finish(study, 30.0)
    finish(study, 20.0)
    study.give_up(study.ask())
    found = report.found(study)
    *_, first, second = shown(found)
    rate = f"{best['optimizer.learning_rate']:.3g}"
    assert first.split() == ["1", "30.0", "29.0", "31.0", rate, best["network.hidden"]]
    assert second.split()[:2] == ["2", "20.0"]
    lines = report.text(found)
    assert lines[:3] == [
        "trials: 3 finished, 1 given up",
        "score: mean of the curve of training returns over 1,000 frames or 60 s, seeds 1000 to 1001 (worse half)",
        "without a search: 10.0 (trial 0)",
    ]
    assert lines[-1] == f"train: a3cd train CartPole-v1 --config {folder_of(study.file) / 'best.toml'}"


def test_the_best_settings_are_a_file_for_a_training(study: Study) -> None:
    finish(study, 10.0)
    found = report.found(study)
    text = Path(found.config).read_text()
    assert text.startswith("# CartPole-v1: trial 0, the best of 1 by `a3cd tune`.\n# Score 10.0: mean of the curve")
    assert parse(text, "it") == study.plan.drawn({"optimizer.learning_rate": 5e-3, "network.hidden": "[128]"})


def test_as_json(study: Study) -> None:
    finish(study, 10.0)
    values = finish(study, 30.0)
    told = json.loads(report.as_json(report.found(study)))
    best = told["trials"][0]
    assert (told["env"], told["score"], best["score"], best["scores"]) == (
        "CartPole-v1",
        "training",
        30.0,
        [29.0, 31.0],
    )
    assert best["values"] == values | {"optimizer.learning_rate": float(f"{values['optimizer.learning_rate']:.3g}")}


def test_importance_is_said_where_it_is_known(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(study, 10.0)
    monkeypatch.setattr(study, "importance", lambda: {"network.hidden": 0.75, "optimizer.learning_rate": 0.25})
    assert "mattered: network.hidden 75 %, optimizer.learning_rate 25 %" in report.text(report.found(study))


def test_a_disk_that_does_not_take_it_is_named(study: Study) -> None:
    finish(study, 10.0)
    (folder_of(study.file) / "best.toml").mkdir()
    found = report.found(study)
    assert "best.toml: cannot be written" in found.trouble
    assert found.config == ""
    assert "train:" not in report.text(found)[-1]


def test_a_study_that_was_copied_alone(study: Study) -> None:
    finish(study, 10.0)
    folder_of(study.file).rename(folder_of(study.file).with_name("elsewhere"))
    assert Path(report.found(study).config).exists()


def test_each_score_has_words() -> None:
    evaluated = plan(frames=None, seconds=120.0)
    assert report.measured(evaluated) == "mean of the curve of evaluation returns over 120 s, seed 1000"
    assert "over 9 virtual s" in report.measured(plan(frames=None, seconds=9.0, simulate=True))


def test_a_study_is_called_by_what_it_is_of() -> None:
    assert report.default_file("ALE/Pong-v5", "a3c") == Path("runs/tune/ALE-Pong-v5-a3c.db")
    assert report.default_file("mine:Own-v0", "ppo") == Path("runs/tune/Own-v0-ppo.db")
