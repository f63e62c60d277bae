"""A study of real trainings: interrupted, resumed and used."""

from __future__ import annotations

import signal

import pytest

from common.errors import EXIT_SIGINT
from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons
from tests.helpers.waiting import until

pytest.importorskip("optuna")
pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(600)]

WORDS = (
    *("tune", "CartPole-v1", "--study", "study.db", "--trials", 2, "--frames", 3000, "--json"),
    *("--set", "environment.num_envs=4", "--set", "environment.step_seconds=0.004", "--set", "network.hidden=[8]"),
)
"""Paced: at least a second and a half for each training's frames, on any machine."""


def test_interrupted_it_goes_on_and_its_best_settings_can_be_trained_with(daemons: Daemons) -> None:
    trials = daemons.folder / "study"

    def playing(trial: int) -> bool:
        file = RunFolder(trials / f"trial-{trial:04}" / "seed-1000").metrics_file
        return file.exists() and file.stat().st_size > 0

    tune = daemons.start(*WORDS)
    until(lambda: playing(0), "a training of", of=tune)
    tune.signal(signal.SIGINT)
    assert tune.wait() == EXIT_SIGINT
    until(lambda: not tune.family(), "nobody left of", of=tune)

    tune = daemons.run(*WORDS, seconds=300)
    by_number = {one["number"]: one for one in tune.result["trials"]}
    first, *others = (by_number[number] for number in sorted(by_number))
    if first["state"] == "interrupted":  # the signal came before its end
        assert others[0]["values"] == first["values"], "the same one again"
    finished = [one for one in by_number.values() if one["state"] == "finished"]
    assert len(finished) == 2
    assert all(8 < one["score"] < 500 for one in finished), "returns of CartPole"
    seeds = {RunFolder(folder).settings().seed for folder in trials.glob("trial-*/seed-1000")}
    assert seeds == {1000}

    refused = daemons.run(*WORDS, "--seeds", 2, code=78)
    assert "the study's trials have --seeds 1, not 2" in refused.said

    words = ("--config", tune.result["config"], "--frames", 1000, "--run-dir", "run", "--no-curve", "--json")
    train = daemons.run("train", "CartPole-v1", *words)
    assert train.result["frames"] >= 1000
    settings = RunFolder(daemons.folder / "run").settings()
    best = max(finished, key=lambda one: one["score"])
    assert settings.optimizer.learning_rate == best["values"]["optimizer.learning_rate"]
    assert not RunFolder(daemons.folder / "run").curve.exists()
