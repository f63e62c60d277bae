from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from common.errors import UnavailableError
from common.run.folder import RunFolder
from common.run.status import CheckpointStatus
from common.settings.sections import Checkpoint
from learner.effects import RateCheckpoint, SaveCheckpoint
from learner.record import run_writer
from learner.record.metrics_file import rows
from learner.record.run_writer import RunWriter, Saved
from tests.helpers.disks import lacking, read_only, small_disk
from tests.helpers.status import evaluation_status, run_status
from tests.helpers.waiting import until

LONG = 60.0
TASKS = Path("/proc/self/task")
Begin = Callable[[RunFolder], RunWriter]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Writers whose threads are gone after the test."""
    begun: list[RunWriter] = []

    def one(folder: RunFolder) -> RunWriter:
        begun.append(RunWriter(folder, Checkpoint()))
        return begun[-1]

    yield one
    for writer in begun:
        writer.close(LONG)
        assert not writer._thread.is_alive()


def save_of(version: int, weights: torch.Tensor) -> SaveCheckpoint:
    return SaveCheckpoint(version, weights, {"mean": weights}, {"frames": version}, None)


def saved_in(run: Path, version: int) -> Saved:
    """What is told of a checkpoint that is on the disk."""
    return Saved(version, "", str(RunFolder(run).checkpoints.absolute() / f"{version:010}"))


def test_all_is_written_in_order(tmp_path: Path, begin: Begin) -> None:
    folder = RunFolder(tmp_path)
    writer = begin(folder)
    for version in range(3):
        writer.row(1.0, {"frames": version})
        writer.save(save_of(version, torch.ones(3)))
    assert writer.wait(LONG)
    assert writer.saved() == [saved_in(tmp_path, version) for version in range(3)]
    assert (writer.saved(), writer.troubles()) == ([], [])
    writer.conclude(run_status(checkpoint=CheckpointStatus(version=2, age=0.0)), curve=True)
    assert writer.wait(LONG)
    assert [row["frames"] for row in rows(folder.metrics_file)] == [0, 1, 2]
    assert [paths.order[0] for paths in folder.all_checkpoints()] == [0, 1, 2]
    assert json.loads(folder.summary_file.read_text())["checkpoint"] == 2
    assert folder.curve.exists()


@pytest.mark.skipif(not TASKS.exists(), reason="no list of this process's threads here (/proc)")
def test_writing_starts_no_team_of_threads(tmp_path: Path, begin: Begin) -> None:
    """Beside a second team the trainer's threads would sleep between its operations."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = torch.ones(1_000_000).mul_(2)  # so many that torch shares them out
        writer = begin(RunFolder(tmp_path))
        threads = len(list(TASKS.iterdir()))
        writer.save(save_of(0, weights))
        assert writer.wait(LONG)
        assert writer.saved() == [saved_in(tmp_path, 0)]
        assert len(list(TASKS.iterdir())) == threads
    finally:
        torch.set_num_threads(before)


def test_the_disk_and_the_host_are_looked_at_once_in_a_while(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begin(RunFolder(tmp_path))
    assert (writer.host.disk_free, writer.host.load) == (None, None)
    looks: list[Path] = []

    def usage(path: Path) -> Any:
        looks.append(path)
        if len(looks) > 1:
            raise OSError(116, "Stale file handle")
        return SimpleNamespace(free=7)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(run_writer, "LOOK_SECONDS", 3600.0)
    for _ in range(3):
        writer.row(1.0, {"frames": 1})
    assert writer.wait(LONG)
    assert (looks, writer.host.disk_free) == ([tmp_path], 7)
    monkeypatch.setattr(run_writer, "LOOK_SECONDS", 0.0)
    writer.row(2.0, {"frames": 1})
    assert writer.wait(LONG)
    assert writer.host.disk_free is None


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that takes nothing until this is set."""
    going = threading.Event()
    genuine = os.fsync

    def fsync(descriptor: int) -> None:
        going.wait(LONG)
        genuine(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    yield going
    going.set()


def test_a_checkpoint_is_of_the_moment_in_which_it_was_handed_over(
    tmp_path: Path, begin: Begin, stalled: threading.Event
) -> None:
    folder = RunFolder(tmp_path)
    writer = begin(folder)
    weights = torch.nn.Parameter(torch.arange(1000.0))
    for version in range(3):
        writer.save(save_of(version, weights))
        with torch.no_grad():
            weights.mul_(2.0)  # the next step: nobody waits for the disk
    assert not writer.wait(0.05)
    assert writer.saved() == []
    stalled.set()
    assert writer.wait(LONG)
    for version, paths in enumerate(folder.all_checkpoints()):
        read = paths.read()
        np.testing.assert_array_equal(read.weights, np.arange(1000.0) * 2**version)
        np.testing.assert_array_equal(read.optimizer["mean"], np.arange(1000.0) * 2**version)


def test_whoever_waits_gives_signs_of_life_and_gives_up_in_the_end(
    tmp_path: Path, begin: Begin, stalled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_writer, "BEAT_SECONDS", 0.05)
    writer = begin(RunFolder(tmp_path))
    writer.save(save_of(1, torch.ones(3)))
    beats: list[int] = []
    assert not writer.wait(2.5, lambda: beats.append(1))
    assert len(beats) >= 2
    writer.close(0.01)
    assert writer._thread.is_alive()
    assert writer._thread.daemon, "the process ends without it"


def test_rows_that_a_silent_disk_would_pile_up_are_left_out_and_that_is_told_once(
    tmp_path: Path, begin: Begin, stalled: threading.Event
) -> None:
    folder = RunFolder(tmp_path)
    writer = begin(folder)
    writer.save(save_of(1, torch.ones(3)))
    until(writer._jobs.empty, "the checkpoint to be begun: no room for a row comes after that")
    for count in range(10_000):
        writer.row(1.0, {"frames": count})
    assert writer.troubles() == [f"{folder.metrics_file}: the disk does not respond; rows are left out"]
    stalled.set()
    assert writer.wait(LONG)
    writer.row(1.0, {"frames": 10_000})
    assert writer.troubles() == []
    assert 3000 < len(list(rows(folder.metrics_file))) < 5000


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_full_disk_is_told_of_and_forgotten_once_there_is_room(tmp_path: Path, begin: Begin) -> None:
    with small_disk(tmp_path / "disk", "400k") as disk:
        folder = RunFolder(disk.path)
        writer = begin(folder)
        weights = torch.ones(10_000)
        writer.save(save_of(1, weights))
        assert writer.wait(LONG)
        disk.fill()
        writer.save(save_of(2, weights))
        for count in range(200):
            writer.row(1.0, {"frames": count, "why": "x" * 200})
        writer.conclude(run_status(), curve=True)
        assert writer.wait(LONG)
        assert writer.saved() == [saved_in(disk.path, 1), Saved(2, f"{folder.checkpoints}: No space left on device")]
        assert "metrics: rows are not written: No space left on device" in writer.troubles()
        assert not folder.summary_file.exists()
        disk.free()
        writer.save(save_of(3, weights))
        assert writer.wait(LONG)
        assert writer.saved() == [saved_in(disk.path, 3)]
        with read_only(folder.checkpoints):
            writer.save(save_of(4, weights))
            assert writer.wait(LONG)
        assert writer.saved() == [Saved(4, f"{folder.checkpoints}: Read-only file system")]
        assert [paths.order[0] for paths in folder.all_checkpoints()] == [1, 3]
        writer.close(LONG)


@pytest.mark.parametrize("what", [OSError(5, "Input/output error"), MemoryError(), RuntimeError("?")])
def test_whatever_fails_the_thread_lives_on(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch, what: Exception
) -> None:
    writer = begin(RunFolder(tmp_path))

    def fail(_: object) -> None:
        raise what

    with monkeypatch.context() as patch:
        patch.setattr(writer._checkpoints, "write", fail)
        writer.save(save_of(1, torch.ones(3)))
        assert writer.wait(LONG)
    (failed,) = writer.saved()
    assert failed.error
    writer.save(save_of(2, torch.tensor([float("nan")])))
    writer.save(save_of(3, torch.ones(3)))
    assert writer.wait(LONG)
    assert [bool(one.error) for one in writer.saved()] == [True, False]


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_folder_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with read_only(disk.path), pytest.raises(UnavailableError, match=r"disk/checkpoints: Read-only file system"):
            RunWriter(RunFolder(disk.path), Checkpoint())
        (disk.path / "metrics.jsonl").mkdir()
        with pytest.raises(UnavailableError, match=r"disk/metrics\.jsonl: Is a directory"):
            RunWriter(RunFolder(disk.path), Checkpoint())


def test_what_a_checkpoint_stands_on_is_on_the_disk_before_it(tmp_path: Path, begin: Begin) -> None:
    folder = RunFolder(tmp_path)
    writer = begin(folder)
    seen: list[int] = []
    writer.sync(lambda: seen.append(len(folder.all_checkpoints())))
    writer.save(save_of(1, torch.ones(3)))
    assert writer.wait(LONG)
    assert (seen, writer.saved()) == ([0], [saved_in(tmp_path, 1)])


def test_a_record_that_the_disk_does_not_take_is_told_and_the_checkpoint_is_written(
    tmp_path: Path, begin: Begin
) -> None:
    writer = begin(RunFolder(tmp_path))

    def fail() -> None:
        raise OSError(5, "Input/output error")

    writer.sync(fail)
    writer.save(save_of(1, torch.ones(3)))
    assert writer.wait(LONG)
    assert writer.saved() == [saved_in(tmp_path, 1)]
    (trouble,) = writer.troubles()
    assert trouble.endswith("gradients: is perhaps not on the disk: Input/output error")


def test_an_evaluation_is_noted_in_turn(tmp_path: Path, begin: Begin) -> None:
    writer = begin(RunFolder(tmp_path))
    writer.save(save_of(1, torch.ones(3)))
    writer.rate(RateCheckpoint(1, evaluation_status()))
    assert writer.wait(LONG)
    best = RunFolder(tmp_path).best()
    assert best is not None
    assert best.read().evaluation == evaluation_status()
    best.state_file.unlink()
    writer.rate(RateCheckpoint(1, evaluation_status()))
    assert writer.wait(LONG)
    (trouble,) = writer.troubles()
    assert trouble.startswith("the evaluation of version 1 could not be noted in its checkpoint: ")


def test_the_best_checkpoint_is_read_in_turn(tmp_path: Path, begin: Begin) -> None:
    writer = begin(RunFolder(tmp_path))
    for version, score in ((1, 5.0), (2, 9.0), (3, 1.0)):
        writer.save(dataclasses.replace(save_of(version, torch.full((3,), float(version))), score=score))
    writer.read_best()
    assert writer.wait(LONG)
    (read,) = writer.best_read()
    assert read.checkpoint is not None
    assert (read.checkpoint.version, read.checkpoint.score, read.error) == (2, 9.0, "")
    assert read.checkpoint.weights.tolist() == [2.0] * 3
    assert writer.best_read() == []


def test_one_that_cannot_be_read_is_said(tmp_path: Path, begin: Begin) -> None:
    folder = RunFolder(tmp_path)
    writer = begin(folder)
    writer.save(dataclasses.replace(save_of(1, torch.ones(3)), score=5.0))
    assert writer.wait(LONG)
    folder.all_checkpoints()[0].state_file.unlink()
    writer.read_best()
    assert writer.wait(LONG)
    (read,) = writer.best_read()
    assert (read.checkpoint, "state.json" in read.error) == (None, True)
