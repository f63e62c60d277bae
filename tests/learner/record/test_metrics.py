from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

from common.run.folder import RunFolder
from learner.record import metrics
from learner.record.hyperparameters import RESULTS
from learner.record.metrics import MetricsWriter
from learner.record.metrics_file import rows
from tests.helpers.disks import lacking, small_disk

INF, NAN = float("inf"), float("nan")


def events(folder: Path) -> list[tuple[int, str, float]]:
    """Step, tag and value of every scalar; a record is length (8 bytes), check (4), event, check (4)."""
    found = []
    for file in folder.iterdir():
        data = file.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            event: Any = Event.FromString(data[12 : 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + length :]
    return found


def test_rows_are_there_at_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print)
    writer.row(12.5, {"frames": 10, "mean_return": NAN, "lag": INF, "why": "start", "goal": None})
    lines = run.metrics_file.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"time": 12.5, "frames": 10, "mean_return": None, "lag": None, "why": "start", "goal": None}
    ]
    writer.row(13.5, {"frames": 20})
    assert [row["frames"] for row in rows(run.metrics_file)] == [10, 20]
    writer.close()
    assert events(run.events) == [(10, "frames", 10.0), (20, "frames", 20.0)]


def test_a_table_of_figures_has_a_tag_for_each_in_tensorboard(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print)
    writer.row(12.5, {"frames": 10, "raw": {"entropy": 0.5, "kl": NAN}})
    writer.close()
    (row,) = rows(run.metrics_file)
    assert row["raw"] == {"entropy": 0.5, "kl": None}
    assert events(run.events) == [(10, "frames", 10.0), (10, "raw/entropy", 0.5)]


def test_the_hyperparameters_stand_before_the_first_row(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print, {"seed": 3, "optimizer.learning_rate": 0.5, "network.hidden": "[128]"})
    writer.row(12.5, {"frames": 10})
    writer.close()
    assert [tag for _, tag, _ in events(run.events)] == [
        *("_hparams_/experiment", "_hparams_/session_start_info"),
        "frames",
    ]
    written = b"".join(file.read_bytes() for file in run.events.iterdir())
    for name in (b"optimizer.learning_rate", b"[128]", *(one.encode() for one in RESULTS)):
        assert name in written


def test_rows_without_frames_are_at_step_0(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print)
    writer.row(1.0, {"lag": 2, "why": "text"})
    writer.close()
    assert events(run.events) == [(0, "lag", 2.0)]


def test_a_new_writer_goes_on_after_a_half_line(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.write_text('{"frames":1}\n{"frames":2}\n{"fra')
    writer = MetricsWriter(run, print)
    writer.row(3.0, {"frames": 3})
    writer.close()
    assert [json.loads(line)["frames"] for line in run.metrics_file.read_text().splitlines()] == [1, 2, 3]


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_full_disk_is_reported_once_leaves_whole_lines_and_is_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The row that no longer fits is written in part, and taken back."""
    caplog.set_level("INFO")
    with small_disk(tmp_path / "disk", "256k") as disk:
        reports: list[str] = []
        writer = MetricsWriter(RunFolder(disk.path), reports.append)
        disk.fill()
        count = 0
        while "metrics" not in " ".join(reports):
            writer.row(1.0, {"frames": count, "why": "x" * 997})
            count += 1
        writer.row(1.0, {"frames": count, "why": "x" * 997})
        assert [text for text in reports if "metrics" in text] == [
            "metrics: rows are not written: No space left on device"
        ]
        file = disk.path / "metrics.jsonl"
        assert [json.loads(line)["frames"] for line in file.read_bytes().splitlines()] == list(range(count - 1))
        disk.free()
        writer.row(1.0, {"frames": 777})
        assert "metrics: rows are written again" in caplog.text
        assert [row["frames"] for row in rows(file)] == [*range(count - 1), 777]
        writer.close()


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_events_end_where_the_disk_takes_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        reports: list[str] = []
        writer = MetricsWriter(RunFolder(disk.path), reports.append)
        disk.fill()
        for count in range(400):
            writer.row(1.0, {"frames": count, **{f"figure_{number}": 1.0 for number in range(20)}})
        writer.close()
    assert reports.count("TensorBoard: no more rows are written: No space left on device") == 1


def test_a_handle_that_went_stale_is_opened_anew(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    reports: list[str] = []
    writer = MetricsWriter(run, reports.append)
    writer.row(1.0, {"frames": 1})
    descriptor = writer._file.open().fileno()
    with Path(os.devnull).open("rb") as null:
        os.dup2(null.fileno(), descriptor)  # nothing can be written through it
    writer.row(2.0, {"frames": 2})
    writer.row(3.0, {"frames": 3})
    writer.close()
    assert [row["frames"] for row in rows(run.metrics_file)] == [1, 3]
    assert len(reports) == 1


def test_the_file_is_thinned_as_it_grows_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "GROWTH_BYTES", 200_000)
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print)
    for second in range(0, 40_000, 4):
        writer.row(1e9 + second, {"frames": second, "seconds": float(second)})
    writer.close()
    kept = [row["seconds"] for row in rows(run.metrics_file)]
    assert kept[0] == 0.0
    assert kept[-1] == 39_996.0
    assert run.metrics_file.stat().st_size < 500_000
    gaps = [later - earlier for earlier, later in pairwise(kept)]
    assert set(gaps[-1000:]) == {4.0}
    assert set(gaps[:1000]) == {12.0}, "at least ten seconds apart"


def test_a_file_that_cannot_be_thinned_is_written_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "GROWTH_BYTES", 1000)
    (tmp_path / ".metrics.jsonl.partial").mkdir()
    reports: list[str] = []
    writer = MetricsWriter(RunFolder(tmp_path), reports.append)
    for second in range(100):
        writer.row(1e9, {"frames": second, "seconds": float(second)})
    writer.close()
    assert len(list(rows(tmp_path / "metrics.jsonl"))) == 100
    assert 1 <= len(reports) < 10
    assert reports[0] == "metrics: the file could not be thinned: Is a directory"


def test_tensorboard_gets_rows_further_apart_as_the_run_grows_older(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run, print)
    for second in (0.0, 1.0, 4_999.0, 5_000.0, 5_001.0, 5_001.5, 100_000.0, 100_019.0, 100_021.0):
        writer.row(1e9, {"frames": int(second), "seconds": second})
    writer.close()
    steps = sorted({step for step, *_ in events(run.events)})
    assert steps == [0, 1, 4_999, 5_000, 5_001, 100_000, 100_021]


def test_a_folder_of_events_that_cannot_be_made_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(tmp_path)
    run.events.touch()
    writer = MetricsWriter(run, print)
    writer.row(1.0, {"frames": 1})
    writer.close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["TensorBoard"]
    assert len(list(rows(run.metrics_file))) == 1
