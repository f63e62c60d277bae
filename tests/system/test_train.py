"""`a3cd train` from beginning to end."""

from __future__ import annotations

import json

import pytest

from common.run.folder import RunFolder
from common.run.status import SUMMARY_KEYS
from tests.helpers.waiting import until
from tests.system.conftest import Training

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.mark.learning
def test_cartpole_is_learnt_within_its_budget(training: Training) -> None:
    result = training.daemon.result
    assert result["reached"] is True, training.daemon
    assert result["mean_return"] >= 195


def test_the_result_has_all_keys_and_is_the_summary(training: Training) -> None:
    assert training.code == 0
    result = training.daemon.result
    written = {
        *("env", "algorithm", "network", "seed", "frames", "episodes", "seconds", "frames_per_second", "mean_return"),
        *("reached", "gradients", "gradient_bytes", "weight_bytes", "lag_mean", "lag_p95", "actors_peak"),
        *("learner_busy", "run_dir"),
    }
    assert written <= set(SUMMARY_KEYS) <= set(result)
    assert (result["env"], result["algorithm"], result["seed"]) == ("CartPole-v1", "a3c", 1)
    assert result["run_dir"] == str(training.run_dir)
    assert result["actors_peak"] == 2
    assert 0 < result["learner_busy"] < 1
    assert 0 <= result["lag_mean"] <= result["lag_p95"] + 1
    for name in ("gradient_bytes", "weight_bytes", "gradients", "episodes", "frames_per_second"):
        assert result[name] > 0
    summary = json.loads(RunFolder(training.run_dir).summary_file.read_text())
    # Of the whole command, and of the learner alone.
    assert result.pop("seconds") > summary.pop("seconds")
    assert result.pop("exit_code") == 0
    assert result == summary


def test_the_run_folder_is_complete(training: Training) -> None:
    folder = RunFolder(training.run_dir)
    assert folder.settings().environment.id == "CartPole-v1"
    assert folder.record().epoch == 1
    until(lambda: folder.curve.exists() or None, "the curve")  # `train` has not waited for it
    assert folder.curve.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert [file for file in folder.events.iterdir() if file.stat().st_size > 0]
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    assert [row["frames"] for row in rows] == sorted(row["frames"] for row in rows)
    newest = folder.newest()
    assert newest is not None
    checkpoint = newest.read()
    result = training.daemon.result
    assert rows[-1]["frames"] == checkpoint.state["counters"]["frames"] == result["frames"]
    assert checkpoint.version == rows[-1]["version"] > 0
    assert checkpoint.optimizer


def test_all_went_well(training: Training) -> None:
    assert training.daemon.at_work() == []
    assert training.daemon.errors == []
    assert training.daemon.said.count("done: mean return") == 2, "each actor was told why"
