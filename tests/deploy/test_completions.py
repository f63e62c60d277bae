"""What is offered at a TAB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.run import presets
from deploy import completions
from deploy.completions import Complete

NOTHING: Any = None


def offered(complete: Complete, incomplete: str) -> list[str]:
    return [item.value for item in complete(NOTHING, NOTHING, incomplete)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_environments_are_presets_and_classes_in_files_here(folder: Path) -> None:
    assert offered(completions.environments, "") == presets.names()
    (folder / "my_envs.py").write_text("import no_such_package\nclass Grid: pass\nclass Maze: pass\n")
    (folder / "broken.py").write_text("class (")
    assert offered(completions.environments, "my_envs.py:") == ["my_envs.py:Grid", "my_envs.py:Maze"]
    assert offered(completions.environments, "Ca") == ["CartPole-v1"]
    (item,) = completions.environments(NOTHING, NOTHING, "CartPole")
    assert item.help == presets.show("CartPole-v1").purpose


@pytest.mark.parametrize(
    ("incomplete", "values"),
    [
        ("optimizer.l", ["optimizer.learning_rate="]),
        ("see", ["seed="]),
        ("optimizer.kind=", ["optimizer.kind=adam", "optimizer.kind=rmsprop", "optimizer.kind=sgd"]),
        ("optimizer.kind=ad", ["optimizer.kind=adam"]),
        ("network.shared=", ["network.shared=false", "network.shared=true"]),
        ("network.kind=d", ["network.kind=dense"]),
        ("evaluation.sampled=", ["evaluation.sampled=false", "evaluation.sampled=true", "evaluation.sampled=auto"]),
        *(("nothing=", []), ("seed=", []), ("seed.more=", []), ("optimizer=", []), ("x", [])),
    ],
)
def test_settings_and_their_words(incomplete: str, values: list[str]) -> None:
    assert offered(completions.settings, incomplete) == values


def test_the_words_of_one_setting() -> None:
    assert offered(completions.setting("algorithm.kind"), "n") == ["n-step-q"]
    assert offered(completions.presets, "Acro") == ["Acrobot-v1"]


def test_runs_are_the_newest_first(folder: Path) -> None:
    assert [(item.value, item.type) for item in completions.runs("")] == [("", "dir")]
    for name in ("B-v1-20260101-000000", "A-v1-20270101-000000", "mine"):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "run.json").touch()
    (folder / "runs" / "no-run").mkdir()
    named = [item.value for item in completions.runs("")]
    assert named == ["last", "runs/A-v1-20270101-000000", "runs/B-v1-20260101-000000", "runs/mine"]
    assert [item.value for item in completions.runs("runs/B")] == ["runs/B-v1-20260101-000000"]
    assert [(item.value, item.type) for item in completions.runs("/tmp")] == [("/tmp", "dir")]
