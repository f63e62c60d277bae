from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from common.errors import ConfigurationError
from common.run.folder import RunFolder
from simulation.cluster import Cluster
from simulation.recorders import FolderRecorder
from simulation.settings import Simulation
from tests.helpers.simulated import SLOW, cluster_of


def test_a_run_folder_is_like_any_other_runs(tmp_path: Path) -> None:
    cluster, memory = cluster_of()
    settings = cluster.settings
    cluster.run()
    recorder = FolderRecorder(tmp_path / "run", settings)
    again = Cluster(settings, Simulation(costs=SLOW), recorder, folder=recorder.run.folder, record=recorder.run.record)
    again.run()
    recorder.close(again.status())
    folder = RunFolder(tmp_path / "run")
    summary = json.loads(folder.summary_file.read_bytes())
    assert (summary["frames"], summary["state"]) == (again.status().frames, "finished")
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    assert [row["frames"] for row in rows] == [row["frames"] for row in memory.rows]
    assert folder.curve.exists()
    newest = folder.newest_read({})
    assert newest is not None and memory.newest is not None
    assert np.array_equal(newest.weights, memory.newest.weights), "the disk has no part in it"


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    settings = cluster_of()[0].settings
    FolderRecorder(tmp_path / "run", settings).close(None)
    with pytest.raises(ConfigurationError, match="holds run"):
        FolderRecorder(tmp_path / "run", settings)


def test_the_best_checkpoint_is_read_again(tmp_path: Path) -> None:
    rules = ("limits.window=1", "checkpoint.every_seconds=1")
    cluster, memory = cluster_of(*rules)
    assert memory.read_best() == (None, "there is none")
    cluster.run()
    assert memory.best is not None and memory.read_best() == (memory.best, "")
    recorder = FolderRecorder(tmp_path / "run", cluster.settings)
    again = Cluster(cluster.settings, Simulation(costs=SLOW), recorder)
    again.run()
    read, error = recorder.read_best()
    assert read is not None and (read.version, error) == (memory.best.version, "")
    recorder.close(None)


def test_a_disk_that_takes_no_record_ends_the_recording_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = cluster_of("record.gradients=true")[0].settings
    recorder = FolderRecorder(tmp_path / "run", settings)
    recorder.run.folder.gradients.touch()  # in the way of the folder
    cluster = Cluster(settings, Simulation(costs=SLOW), recorder)
    cluster.run()
    recorder.close(None)
    assert cluster.status().state == "finished"
    assert [record.message.partition(":")[0] for record in caplog.records if record.levelname == "ERROR"] == [
        "nothing more is recorded (record.gradients)"
    ]
