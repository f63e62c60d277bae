"""A training in Weights & Biases and MLflow, as their libraries know it afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons
from tests.system.conftest import Training

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
READ = """
import sys, mlflow
run, = mlflow.MlflowClient(sys.argv[1]).search_runs(["1"])
print(run.info.status, run.data.metrics["mean_return"], run.data.metrics["summary/mean_return"])
"""


def summary(training: Training) -> dict[str, float]:
    found: dict[str, float] = json.loads(RunFolder(training.run_dir).summary_file.read_text())
    return found


def test_mlflow_has_the_returns_of_the_summary(training: Training, daemons: Daemons) -> None:
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    database = f"sqlite:///{daemons.folder / 'mlflow.db'}"
    told = daemons.run("track", training.run_dir, "--to", "mlflow", "--uri", database)
    assert told.printed.endswith("rows told to mlflow; the run is reached\n")
    read = subprocess.run([sys.executable, "-c", READ, database], capture_output=True, text=True, cwd=daemons.folder)
    mean = summary(training)["mean_return"]
    assert read.stdout.split() == ["FINISHED", str(mean), str(mean)], read.stderr


def test_weights_and_biases_has_them_while_it_is_offline(training: Training, daemons: Daemons) -> None:
    pytest.importorskip("wandb", reason="needs the extra wandb")
    told = daemons.run("track", training.run_dir, "--to", "wandb", "--offline")
    assert told.printed.endswith("rows told to wandb; the run is reached\n")
    (file,) = Path(training.run_dir, "trackers", "wandb").glob("offline-run-*/run-*.wandb")
    assert str(summary(training)["mean_return"]).encode() in file.read_bytes()
    assert not told.family()
