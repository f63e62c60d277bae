from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError, EnvironmentMissingError
from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.settings.toml import override
from deploy.cli.preflight import check, why_over
from learner.effects import SaveCheckpoint
from learner.record.checkpoint import CheckpointWriter
from learner.record.run_lock import create


def settings_of(*assignments: str) -> Settings:
    return override(Settings(), assignments)


def test_what_can_be_trained_passes_and_leaves_nothing(tmp_path: Path) -> None:
    check(settings_of(), RunFolder(tmp_path / "run"), resume=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("assignment", "kind", "text"),
    [
        ("environment.id='CartPol-v1'", EnvironmentMissingError, "CartPol-v1 does not exist; did you mean"),
        ("environment.options={gravitas=1}", EnvironmentMissingError, "gravitas"),
    ],
)
def test_what_the_learner_would_refuse(assignment: str, kind: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=text):
        check(settings_of(assignment), RunFolder(tmp_path / "run"), resume=False)


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ConfigurationError, match=r"is not empty and holds no run \(there is holiday.jpg\)"):
        check(settings_of(), RunFolder(tmp_path), resume=False)
    with pytest.raises(ConfigurationError, match=r"holds no run \(there is no run.json\)"):
        check(settings_of(), RunFolder(tmp_path), resume=True)


def test_settings_with_which_the_run_cannot_go_on(tmp_path: Path) -> None:
    repeatable = ("reproducible=true", "staleness.policy=synchronous", "optimizer.device=cpu")
    folder = RunFolder(tmp_path / "run")
    create(folder.path, settings_of(*repeatable)).close()
    check(settings_of(), folder, resume=True)
    for words, why in ((repeatable, "reproducible = true: a run that is"), (("optimizer.kind=sgd",), "other settings")):
        with pytest.raises(ConfigurationError, match=why):
            check(settings_of(*words), folder, resume=True)


def test_whether_a_run_is_over(tmp_path: Path) -> None:
    run = create(tmp_path / "run", settings_of())
    assert why_over(settings_of("limits.frames=100"), run.folder) == "", "it has no checkpoint"
    import torch

    state = {"counters": {"frames": 100, "recent": [[200.0, 200, 1.0], [190.0, 190, 1.0]]}}
    CheckpointWriter(run.folder, keep=1, best=True).write(SaveCheckpoint(1, torch.zeros(1), {}, state, 196.0))
    run.close()
    assert why_over(settings_of("limits.frames=100"), run.folder) == "100 of 100 frames"
    assert why_over(settings_of("limits.frames=101"), run.folder) == ""
    goal = ("limits.window=2", "limits.until_return=196.0")
    assert why_over(settings_of(*goal), run.folder) == "mean return 196.0 over 2 episodes reached 196"
    assert why_over(settings_of("limits.window=2", "limits.until_return=197.0"), run.folder) == ""
