from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.run.status import summary
from deploy.cli.view.result import text
from tests.helpers.status import evaluation_status, run_status


def told(**changed: Any) -> str:
    return text(summary(run_status(**changed)), hashed=False)


def test_figures_and_what_to_do_with_the_run(tmp_path: Path) -> None:
    run = tmp_path / "x"
    (run / "checkpoints" / "0000001200").mkdir(parents=True)
    shown = told(state="finished", run_dir=str(run))
    assert "mean return 87.3 after 1,204,320 frames (agent steps), 12,345 episodes" in shown
    for words in (f"{run}/curve.png", f"a3cd evaluate {run}", f"a3cd record {run}", "checkpoint is of version 1,200"):
        assert words in shown
    assert "evaluated" not in shown
    assert "--resume" not in shown, "a run at its limit would end at once"


def test_a_run_without_an_episode_and_without_a_checkpoint() -> None:
    shown = told(mean_return=None)
    assert "no episode finished" in shown
    assert "  saved     there is no checkpoint\n" in shown
    assert "a3cd evaluate" not in shown


def test_the_best_weights() -> None:
    shown = told(best_evaluation=evaluation_status())
    assert "evaluated mean return 91.5 (88.2 to 94.8) over 40 episodes: version 20,000, the best" in shown


def test_a_curve_that_was_not_drawn_can_be() -> None:
    assert "curve     runs/x/curve.png" in text(summary(run_status(run_dir="runs/x")), hashed=False)
    assert "curve     a3cd curve runs/x" in text(summary(run_status(run_dir="runs/x")), hashed=False, drawn=False)


def test_the_hash_of_the_weights_where_another_run_has_the_same() -> None:
    found = summary(run_status(weights="ab12"))
    assert "ab12 (SHA-256; the same again)" in text(found, hashed=True)
    assert "ab12" not in text(found, hashed=False)


@pytest.mark.parametrize(("env", "before"), [("games:Car-v0", "PYTHONPATH='./my games' a3cd"), ("CartPole-v1", "a3cd")])
def test_the_hints_can_be_typed_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, before: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my runs/x/checkpoints/0000001200").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", "./my games")
    shown = told(state="stopped", run_dir="my runs/x", env=env)
    for hint in ("evaluate 'my runs/x'", "record 'my runs/x'", f"train {env} --resume --run-dir 'my runs/x'"):
        assert f"  {before} {hint}" in shown
