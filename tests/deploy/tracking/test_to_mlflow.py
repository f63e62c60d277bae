"""With the real library and a database of its own."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.run.folder import RunFolder
from deploy.tracking import follow
from deploy.tracking.follow import Follower, Outcome
from deploy.tracking.tracker import Target
from tests.helpers.run_folders import run_folder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it imports is not ours
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """To make its tables takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # where it puts artifacts
        yield f"sqlite:///{folder / 'mlflow.db'}"


def track(folder: Path, uri: str, project: str) -> Outcome:
    return Follower(RunFolder(folder), "mlflow", Target(project, uri)).follow(lambda pause: pause > 0)


def found(uri: str, project: str) -> tuple[Any, dict[str, list[tuple[int, float]]]]:
    """The one run there, and of each metric its steps and values."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name(project).experiment_id])
    names = run.data.metrics
    history = {name: client.get_metric_history(run.info.run_id, name) for name in names}
    return run, {name: sorted((one.step, one.value) for one in some) for name, some in history.items()}


def test_a_run_is_there_with_its_rows_its_settings_and_its_end(database: str, tmp_path: Path) -> None:
    returns = [float(value) for value in range(500)]  # more than fit into one call
    folder = run_folder(tmp_path / "mine", "optimizer.learning_rate=0.25", returns=returns, summary={})
    assert track(folder, database, "whole") == Outcome(500, "reached")
    run, metrics = found(database, "whole")
    assert (run.info.run_name, run.info.status, run.data.tags["a3cd.run"]) == ("mine", "FINISHED", "0123456789abcdef")
    assert run.data.params["optimizer.learning_rate"] == "0.25"
    assert metrics["mean_return"] == [(1000 * (number + 1), value) for number, value in enumerate(returns)]
    summary = json.loads((folder / "summary.json").read_text())
    assert metrics["summary/mean_return"] == [(summary["frames"], summary["mean_return"])]
    assert run.data.metrics["mean_return"] == summary["mean_return"]


def test_a_run_that_goes_on_is_the_same_run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "QUIET_SECONDS", 0.0)
    folder = run_folder(tmp_path / "mine", returns=[1.0])
    assert track(folder, database, "twice") == Outcome(1, "interrupted")
    assert found(database, "twice")[0].info.status == "KILLED"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"frames": 3000, "mean_return": 3.0}\n')
    (folder / "trackers" / "mlflow.json").unlink()  # what is told again is there once
    assert track(folder, database, "twice") == Outcome(2, "interrupted")
    assert found(database, "twice")[1]["mean_return"] == [(1000, 1.0), (3000, 3.0)]


def test_an_address_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"MLflow: .*unsupported URI 'nonsense://x'"):
        track(run_folder(tmp_path / "mine"), "nonsense://x", "p")


def test_nothing_is_sent_but_what_was_asked_for() -> None:
    import os

    assert "deploy.tracking.to_mlflow" in sys.modules
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
