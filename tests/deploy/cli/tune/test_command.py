"""The command, with stand-ins for the trainings; tests/system/test_tune.py has real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_SIGINT, EXIT_TRY_LATER
from common.host.service.signals import Signals
from common.settings.sections import Settings
from common.settings.toml import read
from deploy.cli.tune import training
from deploy.cli.tune.command import plan_of, run
from deploy.cli.tune.study import locked
from deploy.cli.tune.training import Training
from tests.helpers.broken_output import BrokenOutput
from tests.helpers.command_line import a3cd
from tests.helpers.tuning import FakeTrainings

pytestmark = pytest.mark.slow


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeTrainings:
    """Each has ended as soon as it was started."""
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    fakes = FakeTrainings()

    def start(settings: Settings, run_dir: Path) -> Training:
        started = fakes.start(settings, run_dir)
        fakes.all[-1].finish()
        return started

    monkeypatch.setattr(training, "starter", lambda plan, children: start)
    return fakes


def test_a_search_tells_what_it_found_and_writes_it(trainings: FakeTrainings) -> None:
    words = ("tune", "CartPole-v1", "--frames", 1000, "--seeds", 2, "--set", "network.hidden=[8]", "--actors", 1)
    result = a3cd(*words, "--trials", 3)
    assert result.exit_code == 0, result.output
    assert "trial 0: 5" in result.stderr
    assert "trials: 3 finished" in result.stdout
    assert len(trainings.all) == 6
    assert {one.settings.scaling.most for one in trainings.all} == {1}
    found = read(Path("runs/tune/CartPole-v1-a3c/best.toml"))
    assert (found.network.hidden, found.limits.until_return) == ([8], 475.0)
    shown = json.loads(a3cd("tune", "CartPole-v1", "--show", "--json").stdout)
    assert len(shown["trials"]) == 3
    assert shown["trials"][0]["values"]["optimizer.learning_rate"] == found.optimizer.learning_rate
    assert a3cd(*words, "--trials", 4).exit_code == 0
    assert len(trainings.all) == 8, "one more trial"


def test_a_stderr_that_takes_nothing_does_not_end_the_search(
    trainings: FakeTrainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = dict.fromkeys(("algorithm", "network", "actors", "seconds", "score"))
    plan = plan_of("CartPole-v1", assignments=(), searched=(), frames=1000, seeds=1, simulate=False, **options)
    monkeypatch.setattr(sys, "stderr", BrokenOutput())
    assert run(plan, Path("mine.db"), trials=3, jobs=1, seed=0, as_json=True) == 0
    assert len(trainings.all) == 3


def test_the_default_study_is_of_the_presets_algorithm(trainings: FakeTrainings) -> None:
    assert a3cd("tune", "Pendulum-v1", "--frames", 10, "--trials", 1).exit_code == 0
    assert Path("runs/tune/Pendulum-v1-ppo.db").exists()


@pytest.mark.usefixtures("trainings")
def test_what_is_wrong_is_refused_by_name(caplog: pytest.LogCaptureFixture) -> None:
    for words, why in (
        (["--set", "seed=1"], "--set seed=1: seed is the study's own"),
        (["--set", "limits.frames=1"], "--set limits.frames=1: limits.frames is the study's own"),
        (["--set", "optimizer.no=1"], "--set: optimizer.no is no setting"),
        (["--search", "optimizer.no=1..2"], "--search optimizer.no=1..2: optimizer.no is no setting"),
        (["--study", "x.sqlite"], "--study x.sqlite: must end in .db"),
        (["--show"], "there is no study there yet"),
    ):
        caplog.clear()
        assert a3cd("tune", "CartPole-v1", "--frames", 1000, *words).exit_code == EXIT_CONFIGURATION
        assert why in caplog.text
    assert a3cd("tune", "CartPole-v1").exit_code == EXIT_CONFIGURATION
    assert "give --frames or --seconds" in caplog.text
    assert not Path("runs/tune/CartPole-v1-a3c.db").exists()


@pytest.mark.usefixtures("trainings")
def test_another_study_is_refused_and_one_at_work_is_waited_for_by_nobody(caplog: pytest.LogCaptureFixture) -> None:
    assert a3cd("tune", "CartPole-v1", "--frames", 1000, "--trials", 1).exit_code == 0
    assert a3cd("tune", "CartPole-v1", "--frames", 2000, "--trials", 1).exit_code == EXIT_CONFIGURATION
    assert "have --frames 1000, not 2000" in caplog.text
    with locked(Path("runs/tune/CartPole-v1-a3c.db")):
        assert a3cd("tune", "CartPole-v1", "--frames", 1000, "--trials", 2).exit_code == EXIT_TRY_LATER
        assert a3cd("tune", "CartPole-v1", "--show").exit_code == 0


def test_ctrl_c_ends_it(trainings: FakeTrainings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Signals, "requested", property(lambda self: 2, lambda self, value: None), raising=False)
        result = a3cd("tune", "CartPole-v1", "--frames", 1000, "--trials", 2)
    assert result.exit_code == EXIT_SIGINT
    assert "the same command goes on" in result.stderr
    assert a3cd("tune", "CartPole-v1", "--frames", 1000, "--trials", 2).exit_code == 0


def test_without_optuna_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert a3cd("tune", "CartPole-v1", "--frames", 1000).exit_code == EXIT_CONFIGURATION
    assert "a3cd tune needs optuna, which is not installed here: pip install 'a3cd[tune]'" in caplog.text
    assert not (tmp_path / "runs").exists()
    assert a3cd("tune", "--help").exit_code == 0
