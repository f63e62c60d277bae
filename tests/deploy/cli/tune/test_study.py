from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, UnavailableError
from deploy.cli.tune import study as module
from deploy.cli.tune.plan import Plan
from deploy.cli.tune.study import PARTS_FIRST, Study, folder_of, load, locked, open_study
from tests.helpers.tuning import plan

pytestmark = pytest.mark.slow

KEY = "optimizer.learning_rate"


@pytest.fixture(autouse=True)
def _optuna() -> None:
    pytest.importorskip("optuna")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


@pytest.fixture
def study(file: Path) -> Iterator[Study]:
    with open_study(plan(), file, seed=0) as one:
        yield one


def finish(study: Study, score: float) -> dict[str, Any]:
    trial = study.ask()
    trial.ended(score)
    study.finish(trial, score)
    return trial.values


def test_the_first_trial_is_what_the_preset_has(study: Study) -> None:
    assert study.ask().values == {KEY: 5e-3}
    assert study.ask().values != {KEY: 5e-3}


def test_a_preset_beyond_the_ranges_leaves_the_first_trial_to_the_sampler(file: Path) -> None:
    with open_study(plan(searched=("optimizer.learning_rate=1e-5..1e-4",)), file, seed=0) as one:
        assert 1e-5 <= one.ask().values[KEY] <= 1e-4


def test_whole_numbers_and_choices_are_drawn(file: Path) -> None:
    searched = ("algorithm.rollout_length=5..9,log", "network.hidden=[64,64],[32]")
    with open_study(plan(searched=searched), file, seed=0) as one:
        values = one.ask().values
    assert values["algorithm.rollout_length"] in range(5, 10)
    assert values["network.hidden"] in ("[64,64]", "[32]")


def test_the_best_are_told_first(study: Study) -> None:
    finish(study, 1.0)
    best = finish(study, 3.0)
    given_up, failed = study.ask(), study.ask()
    study.give_up(given_up)
    failed.failed("it broke")
    study.give_up(failed)
    running = study.ask()
    told = study.trials()
    assert [(one.number, one.state, one.score) for one in told] == [
        *((1, "finished", 3.0), (0, "finished", 1.0)),
        *((2, "given up", None), (3, "failed", None), (running.number, "running", None)),
    ]
    assert (told[0].values, told[0].scores, told[3].why, study.done) == (best, [3.0], "it broke", 4)


def test_a_search_goes_on_with_the_trials_that_ran(file: Path) -> None:
    with open_study(plan(), file, seed=0) as one:
        finish(one, 1.0)
        ran = [one.ask().values, one.ask().values]
    with open_study(plan(), file, seed=0) as one:
        assert one.try_interrupted_again() == 2
        assert one.done == 1
        again = [one.ask(), one.ask()]
        assert [trial.values for trial in again] == ran
        assert [trial.number for trial in again] == [3, 4], "each has a folder of its own"
        assert one.ask().values not in ran
        assert one.try_interrupted_again() == 3
        assert one.try_interrupted_again() == 0


def test_what_is_drawn_depends_on_the_seed_and_is_not_drawn_again(file: Path, tmp_path: Path) -> None:
    def drawn(file: Path, seed: int) -> dict[str, Any]:
        with open_study(plan(searched=("algorithm.gamma=0.9..0.95",)), file, seed=seed) as one:
            return finish(one, 1.0)

    first = drawn(file, 0)
    assert drawn(tmp_path / "same.db", 0) == first
    assert drawn(tmp_path / "other.db", 7) != first
    assert drawn(file, 0) != first


def test_a_trial_that_is_worse_than_half_of_the_others_is_hopeless(study: Study) -> None:
    for score in range(5):
        trial = study.ask()
        for step in range(1, 11):
            trial.report(step, float(score))
            assert not trial.hopeless, "too few trials are finished"
        study.finish(trial, float(score))
    trial = study.ask()
    for step in range(1, PARTS_FIRST):
        trial.report(step, 1.0)
        assert not trial.hopeless, "all play badly at first"
    trial.report(PARTS_FIRST + 1, 1.0)
    assert trial.hopeless
    trial = study.ask()
    trial.report(PARTS_FIRST + 1, 3.0)
    assert not trial.hopeless


def test_importance_takes_enough_trials(study: Study) -> None:
    assert study.importance() == {}
    for _ in range(module.IMPORTANT_FROM):
        trial = study.ask()
        study.finish(trial, trial.values[KEY])
    assert study.importance() == {KEY: 1.0}


@pytest.mark.parametrize("content", ["no database", "", "foreign", "another study"])
def test_a_file_of_something_else_is_refused_and_left_alone(file: Path, content: str, tmp_path: Path) -> None:
    if content == "foreign":
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE mine (x)")
        database.close()
    elif content == "another study":
        optuna = load()
        storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
        optuna.create_study(storage=storage, study_name="theirs")
        storage.engine.dispose()
    else:
        file.write_text(content * 100)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match="holds no study of `a3cd tune`"):
        open_study(plan(), file, seed=0)
    if content not in ("", "another study"):
        assert file.read_bytes() == before


def test_a_study_of_other_settings_is_refused(file: Path, study: Study) -> None:
    with pytest.raises(ConfigurationError, match="have --frames 1000, not 2000; choose another --study"):
        open_study(plan(frames=2000), file, seed=0)


def test_there_has_to_be_one_to_look_at(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no study there yet"):
        Study(file)
    assert not file.exists()


def test_trials_of_another_study_are_not_mixed_with(file: Path) -> None:
    (folder_of(file) / "trial-0000").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="holds trials, and there is no"):
        open_study(plan(), file, seed=0)
    assert not file.exists()


def test_one_search_at_a_time(file: Path, tmp_path: Path) -> None:
    with locked(file), pytest.raises(UnavailableError, match="another `a3cd tune` is at work on it"), locked(file):
        pass
    (tmp_path / "none").write_text("")
    with pytest.raises(UnavailableError, match="cannot be used now"), locked(tmp_path / "none" / "x.db"):
        pass
    with pytest.raises(ConfigurationError, match=r"must end in \.db"):
        folder_of(tmp_path / "study")


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigurationError, match=r"needs optuna.*pip install 'a3cd\[tune\]'"):
        open_study(plan(), file, seed=0)


def test_a_disk_that_does_not_take_a_trial_is_named(file: Path) -> None:
    with open_study(plan(), file, seed=0):
        pass
    with pytest.raises(UnavailableError, match=r"study\.db: cannot be used now: .*no such table"), Study(file) as one:
        with sqlite3.connect(file) as database:
            database.execute("DROP TABLE trials")
        database.close()
        one.ask()


@pytest.mark.parametrize("size", [0, 40960])
def test_a_disk_without_room_for_a_study_is_named_and_nothing_is_left(
    file: Path, room: Callable[[int], None], size: int
) -> None:
    room(size)
    with pytest.raises(UnavailableError, match=r"study\.db: cannot be used now: .*(I/O error|full)"):
        open_study(plan(), file, seed=0)
    assert list(file.parent.iterdir()) == []


def fails(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Makes the disk fail at this step of Optuna's."""
    optuna = load()

    def fail(*_: object, **__: object) -> None:
        raise optuna.exceptions.StorageInternalError("the commit failed") from sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(optuna.storages.RDBStorage, step, fail)


@pytest.mark.parametrize("step", ["create_new_study", "set_study_user_attr"])
def test_a_disk_that_fills_up_while_a_study_is_made_is_named_and_nothing_is_left(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Where it fails depends on Optuna's pages, so it fails at a step of ours."""
    with monkeypatch.context() as context:
        fails(context, step)
        with pytest.raises(UnavailableError, match=r"study\.db: cannot be used now: disk is full"):
            open_study(plan(), file, seed=0)
    assert list(file.parent.iterdir()) == []
    open_study(plan(), file, seed=0).close()


def test_nothing_is_left_of_a_study_that_was_interrupted_while_it_was_made(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(load().storages.RDBStorage, "set_study_user_attr", interrupt)
        with pytest.raises(KeyboardInterrupt):
            open_study(plan(), file, seed=0)
    open_study(plan(), file, seed=0).close()


def test_a_disk_that_does_not_give_a_study_is_named_and_the_study_is_left(
    file: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, "get_study_user_attrs")
    with pytest.raises(UnavailableError, match=r"study\.db: cannot be used now: disk is full"):
        open_study(plan(), file, seed=0)
    assert file.exists()


def test_the_plan_is_kept(study: Study) -> None:
    assert isinstance(study.plan, Plan)
    assert study.plan == plan()
