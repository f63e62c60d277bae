"""Searches with stand-ins for the trainings, looked at step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_TRY_LATER, ConfigurationError, UnavailableError
from common.settings.sections import Settings
from deploy.cli.tune.study import Study, open_study
from deploy.cli.tune.training import Training
from deploy.cli.tune.trials import FAILURES, READ_SECONDS, Ended, Search, of_trial, search
from tests.helpers.tuning import FakeTrainings, plan

pytestmark = pytest.mark.slow

pytest.importorskip("optuna")


@pytest.fixture
def trainings() -> FakeTrainings:
    return FakeTrainings()


@pytest.fixture
def begin(tmp_path: Path, trainings: FakeTrainings) -> Iterator[Callable[..., tuple[Study, Search]]]:
    opened: list[Study] = []

    def start(*, trials: int = 3, jobs: int = 1, **changed: Any) -> tuple[Study, Search]:
        study = open_study(plan(**changed), tmp_path / "study.db", seed=0)
        opened.append(study)
        return study, Search(study, tmp_path / "study", trainings.start, trials=trials, jobs=jobs)

    yield start
    for study in opened:
        study.close()


Begin = Callable[..., tuple[Study, Search]]


def play_on(tasks: Search, trainings: FakeTrainings) -> list[Ended]:
    """Each training to its end, to the end of the search."""
    ended: list[Ended] = []
    while not tasks.over:
        ended += tasks.look(0.0)
        for one in trainings.running:
            one.finish()
    return ended


def test_trials_are_trained_until_there_are_enough(begin: Begin, trainings: FakeTrainings, tmp_path: Path) -> None:
    study, tasks = begin(trials=3)
    ended = play_on(tasks, trainings)
    assert [one.number for one in ended] == [0, 1, 2]
    assert ended[0].outcome == "5", "1000 times the learning rate of the preset"
    assert [one.run_dir.relative_to(tmp_path) for one in trainings.all] == [
        Path("study", f"trial-000{number}", "seed-1000") for number in range(3)
    ]
    assert study.done == 3
    assert study.trials()[0].score == pytest.approx(
        max(1000 * one.settings.optimizer.learning_rate for one in trainings.all)
    )


def test_so_many_at_a_time(begin: Begin, trainings: FakeTrainings) -> None:
    _, tasks = begin(trials=5, jobs=2)
    tasks.look(0.0)
    assert len(trainings.running) == 2
    tasks.look(0.0)
    assert len(trainings.all) == 2
    trainings.all[1].finish()
    tasks.look(0.0)
    tasks.look(0.0)
    assert (len(trainings.all), len(trainings.running)) == (3, 2)


def test_the_score_is_the_mean_of_the_worse_half_of_the_seeds(begin: Begin, trainings: FakeTrainings) -> None:
    study, tasks = begin(trials=1, seeds=3)
    returns = iter((1.0, 50.0, 2.0))
    while not tasks.over:
        tasks.look(0.0)
        for one in trainings.running:
            value = next(returns)
            one.rows = lambda value=value: [{"frames": 1000, "mean_return": value}]  # type: ignore[method-assign, misc]
            one.finish()
    assert [one.settings.seed for one in trainings.all] == [1000, 1001, 1002]
    (only,) = study.trials()
    assert (only.score, only.scores) == (1.5, [1.0, 50.0, 2.0])


@pytest.mark.parametrize(
    ("scores", "score"),
    [([3.0], 3.0), ([4.0, 2.0], 2.0), ([9.0, 1.0, 5.0, 3.0], 2.0), ([5.0, 4.0, 3.0, 2.0, 1.0], 2.0)],
)
def test_of_any_number_of_seeds(scores: list[float], score: float) -> None:
    assert of_trial(scores) == score


def test_one_that_is_hopeless_is_ended(begin: Begin, trainings: FakeTrainings) -> None:
    study, tasks = begin(trials=6, assignments=("environment.num_envs=8",))
    for _ in range(5):
        tasks.look(0.0)
        one = trainings.all[-1]
        one.rows = lambda: [{"frames": 1000, "mean_return": 100.0}]  # type: ignore[method-assign]
        one.finish()
        tasks.look(0.0)
    tasks.look(0.0)
    last = trainings.all[-1]
    last.played = 200
    assert tasks.look(READ_SECONDS) == []
    last.played = 500
    assert tasks.look(1.5 * READ_SECONDS) == [], "its metrics were read half a second ago"
    (ended,) = tasks.look(2 * READ_SECONDS)
    assert last.ended
    assert ended.outcome == "given up after 50 % of training 1: worse than half of the others were there"
    assert (study.done, tasks.over) == (6, True)


def test_one_that_fails_is_a_bad_trial(begin: Begin, trainings: FakeTrainings) -> None:
    study, tasks = begin(trials=2)
    tasks.look(0.0)
    trainings.all[0].exit_code = EXIT_TRY_LATER
    (ended,) = tasks.look(0.0)
    assert ended.outcome == "failed: a reason"
    play_on(tasks, trainings)
    assert {one.state: one.why for one in study.trials()} == {"finished": "", "failed": "a reason"}


def test_a_training_without_an_episode_is_too_short(begin: Begin, trainings: FakeTrainings) -> None:
    _, tasks = begin()
    tasks.look(0.0)
    trainings.all[0].exit_code = 0
    (ended,) = tasks.look(0.0)
    assert ended.outcome == "failed: a training ended before its first episode: it has to be longer"


def test_when_one_after_the_other_fails_it_ends(begin: Begin, trainings: FakeTrainings) -> None:
    _, tasks = begin(trials=9)
    with pytest.raises(UnavailableError, match=f"{FAILURES} trials in a row failed, trial 2 so: a reason"):
        for _ in range(20):
            tasks.look(0.0)
            for one in trainings.running:
                one.exit_code = EXIT_TRY_LATER
    assert len(trainings.all) == FAILURES


def test_what_can_never_be_trained_ends_it_at_once_and_is_tried_again(begin: Begin, trainings: FakeTrainings) -> None:
    study, tasks = begin()
    tasks.look(0.0)
    trainings.all[0].exit_code = EXIT_CONFIGURATION
    with pytest.raises(ConfigurationError, match="trial 0: a reason"):
        tasks.look(0.0)
    tasks.stop()
    assert study.done == 0
    assert study.ask().values == {"optimizer.learning_rate": 5e-3}


def test_values_that_clash_are_a_failed_trial(begin: Begin, trainings: FakeTrainings, tmp_path: Path) -> None:
    """A message holds the episodes of 1,024 environments, or of rollouts of 1,024 steps, and not both."""
    searched = ("environment.num_envs=16,1024", "algorithm.rollout_length=16,1024")
    study, _ = begin(searched=searched)
    clash = {"environment.num_envs": "1024", "algorithm.rollout_length": "1024"}

    def start(settings: Settings, run_dir: Path) -> Training:
        return trainings.start(settings, run_dir)

    asked = study.ask()
    asked.values = clash
    tasks = Search(study, tmp_path / "study", start, trials=1, jobs=1)
    study.ask = lambda: asked  # type: ignore[method-assign]
    (ended,) = tasks.look(0.0)
    assert ended.outcome.startswith("failed: drawn: environment.num_envs = 1024")
    assert trainings.all == []


def test_an_interrupted_search_ends_its_trainings_and_goes_on_with_them(begin: Begin, trainings: FakeTrainings) -> None:
    study, tasks = begin(trials=4, jobs=2)
    heard: list[Ended] = []
    looks = iter(range(100))
    assert not search(tasks, heard.append, lambda: next(looks) == 2, 0.0)
    ran = list(trainings.all)
    assert [(one.asked, one.ended) for one in ran] == [(True, True)] * 2
    assert study.done == 0
    study.close()
    study, tasks = begin(trials=4, jobs=2)
    assert search(tasks, heard.append, lambda: any(one.finish() for one in trainings.running), 0.0)
    again = [one.settings for one in trainings.all[2:4]]
    assert again == [one.settings for one in ran]
    assert len({one.run_dir for one in trainings.all}) == 6
    assert (study.done, len(heard)) == (4, 4)


def test_a_search_that_has_enough_starts_nothing(begin: Begin, trainings: FakeTrainings) -> None:
    _, tasks = begin(trials=2)
    play_on(tasks, trainings)
    _, tasks = begin(trials=2)
    assert tasks.over
    _, tasks = begin(trials=3)
    play_on(tasks, trainings)
    assert len(trainings.all) == 3
