from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor

from common.errors import DamagedCheckpointError, NonFiniteError, UnavailableError
from common.rl.named_tensors import NamedTensor, plain_tensor
from common.run.folder import RunFolder
from learner.effects import RateCheckpoint, SaveCheckpoint
from learner.record import checkpoint
from learner.record.checkpoint import CheckpointWriter
from tests.helpers.dying import Killed, die_at_call
from tests.helpers.status import evaluation_status

WEIGHTS = torch.arange(1000, dtype=torch.float32)
OPTIMIZER = {"mean": torch.ones(1000), "square": torch.full((1000,), 2.0), "steps": torch.tensor(7)}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def write(writer: CheckpointWriter, version: int, score: float | None = None) -> None:
    writer.write(SaveCheckpoint(version, WEIGHTS + version, OPTIMIZER, {"frames": 100 * version}, score))


def kept(run: RunFolder) -> list[str]:
    return sorted(entry.name.lstrip("0") for entry in run.checkpoints.iterdir())


def test_what_is_written_is_read_back(run: RunFolder) -> None:
    save = SaveCheckpoint(12, WEIGHTS, OPTIMIZER, {"a": [1, {"b": "c"}]}, 3.5)
    read = CheckpointWriter(run, keep=3, best=True).write(save).read()
    assert (read.version, read.score, read.state) == (12, 3.5, {"a": [1, {"b": "c"}]})
    np.testing.assert_array_equal(read.weights, WEIGHTS.numpy())
    assert {name: array.tolist() for name, array in read.optimizer.items()} == {
        name: tensor.tolist() for name, tensor in OPTIMIZER.items()
    }


def test_weights_are_named_tensors_for_others_and_the_same_vector_for_us(run: RunFolder) -> None:
    layout = [NamedTensor("trunk.weight", (10, 90), (1, 0), (90, 10)), plain_tensor("policy.weight", 2, 50)]
    writer = CheckpointWriter(run, keep=1, best=True, layout=layout)
    paths = writer.write(SaveCheckpoint(1, WEIGHTS, {}, {}, None))
    np.testing.assert_array_equal(paths.read().weights, WEIGHTS.numpy())
    tensors = load_file(paths.weights_file)
    assert {name: one.shape for name, one in tensors.items()} == {"trunk.weight": (90, 10), "policy.weight": (2, 50)}
    np.testing.assert_array_equal(tensors["trunk.weight"].T.ravel(), WEIGHTS[:900].numpy())


def test_the_optimizer_may_be_stateless(run: RunFolder) -> None:
    read = CheckpointWriter(run, keep=1, best=False).write(SaveCheckpoint(1, WEIGHTS, {}, {}, None)).read()
    np.testing.assert_array_equal(read.weights, WEIGHTS.numpy())
    assert read.optimizer == {}


def test_parameters_are_written_without_their_graph_and_views_in_order(run: RunFolder) -> None:
    weights = torch.nn.Parameter(WEIGHTS.clone())
    swapped = torch.arange(6.0).reshape(2, 3).T
    read = (
        CheckpointWriter(run, keep=1, best=False).write(SaveCheckpoint(1, weights, {"view": swapped}, {}, None)).read()
    )
    assert read.optimizer["view"].tolist() == swapped.tolist()


def test_the_last_are_kept(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=2, best=False)
    for version in range(1, 6):
        write(writer, version, score=float(-version))
    assert kept(run) == ["4", "5"]


def test_the_best_is_kept_besides(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=2, best=True)
    left = []
    for version, score in enumerate([None, 5.0, 7.0, 7.0, 6.0, 1.0, -3.0, 8.0], start=1):
        write(writer, version, score)
        left.append(kept(run))
    assert left[1:] == [["1", "2"], ["2", "3"], ["3", "4"], ["4", "5"], ["4", "5", "6"], ["4", "6", "7"], ["7", "8"]]
    best = run.best()
    assert best is not None
    assert best.order == (8, 0)


def test_what_is_under_evaluation_is_kept_until_it_is_judged(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    left = []
    for version, under_evaluation in ((1, {}), (2, {1}), (3, {1}), (4, {4}), (5, {4})):
        save = SaveCheckpoint(version, WEIGHTS, OPTIMIZER, {}, None, under_evaluation=under_evaluation)
        writer.write(save)
        left.append(kept(run))
    assert left == [["1"], ["1", "2"], ["1", "3"], ["4"], ["4", "5"]]


def test_the_best_by_an_evaluation_is_kept_and_noted(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    write(writer, 1, 50.0)
    writer.write(SaveCheckpoint(2, WEIGHTS, OPTIMIZER, {}, 1.0, under_evaluation={1}))
    writer.rate(RateCheckpoint(1, evaluation_status(mean=5.0)))
    write(writer, 4, 99.0)
    assert kept(run) == ["1", "4"]
    best = run.best()
    assert best is not None
    assert best.read().evaluation == evaluation_status(mean=5.0)
    assert writer.read_best().version == 1
    writer.rate(RateCheckpoint(4, evaluation_status(mean=6.0)))
    write(writer, 5)
    assert kept(run) == ["4", "5"]
    writer = CheckpointWriter(run, keep=1, best=True)
    write(writer, 6, 1e6)
    assert kept(run) == ["4", "6"], "also after a restart"


def test_an_evaluation_that_the_disk_does_not_take_is_noted_with_the_next_checkpoint(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    write(writer, 1)
    writer.rate(RateCheckpoint(1, evaluation_status(mean=5.0)))
    write(writer, 2)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "replace_file", full)
        with pytest.raises(OSError, match="No space left"):
            writer.rate(RateCheckpoint(2, evaluation_status(mean=6.0)))
        write(writer, 3)
        assert kept(run) == ["1", "2", "3"], "both may turn out to be the best"
    write(writer, 4)
    assert kept(run) == ["2", "4"]
    best = run.best()
    assert best is not None and best.read().evaluation == evaluation_status(mean=6.0)


def test_of_an_earlier_epoch_nothing_is_noted(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    """Its weights of that version may be others."""
    write(CheckpointWriter(run, keep=3, best=True), 4)
    writer = CheckpointWriter(run, keep=3, best=True)
    writer.rate(RateCheckpoint(4, evaluation_status()))
    assert "there is no checkpoint of version 4, which was evaluated best" in caplog.text
    write(writer, 4)
    writer.rate(RateCheckpoint(4, evaluation_status()))
    best = run.best()
    assert best is not None
    assert best.order == (4, 1)


def test_scores_that_are_no_numbers_are_never_the_best(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    for version, score in enumerate([float("nan"), float("inf"), -5.0, None], start=1):
        write(writer, version, score)
    assert kept(run) == ["3", "4"]


def test_a_new_writer_goes_on_where_the_last_one_ended(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=3, best=True)
    for version, score in enumerate([9.0, 1.0, 1.0, 1.0], start=1):
        write(writer, version, score)
    write(CheckpointWriter(run, keep=2, best=True), 5, 2.0)
    assert kept(run) == ["1", "4", "5"]


def test_one_version_can_be_written_again(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=2, best=False)
    for _ in range(3):
        write(writer, 4)
    assert kept(run) == ["4-1", "4-2"]
    newest = run.newest()
    assert newest is not None
    assert newest.order == (4, 2)


def test_nothing_else_is_removed(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    write(writer, 1)
    (run.checkpoints / "notes.txt").write_text("mine")
    damaged = run.checkpoints / "0000000900"
    damaged.mkdir()
    writer = CheckpointWriter(run, keep=1, best=True)
    assert "checkpoint 0000000900 is damaged and left as it is" in caplog.text
    write(writer, 2)
    write(writer, 900)
    assert kept(run) == ["900", "900-1", "notes.txt"]


@pytest.mark.parametrize("calls", range(8))
def test_killed_while_writing(run: RunFolder, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Dies at every call that brings something to the disk; the checkpoint is there whole or not at all."""
    write(CheckpointWriter(run, keep=1, best=False), 1)
    with monkeypatch.context() as patch:
        die_at_call(patch, ("fsync", "rename", "replace"), calls)
        try:
            write(CheckpointWriter(run, keep=1, best=False), 2)
            died = False
        except Killed:
            died = True
    assert died == (calls < 7)  # Three files, their folder, the rename, the folder above, the old one's rename.
    newest = run.newest()
    assert newest is not None
    assert newest.read().version == (1 if calls < 5 else 2)
    # The next learner finds nothing in its way.
    write(CheckpointWriter(run, keep=1, best=False), 2)
    assert len(kept(run)) == 1
    newest = run.newest()
    assert newest is not None
    assert newest.read().version == 2


@pytest.mark.parametrize("failing", ["fsync", "rename", "mkdir"])
def test_a_full_disk_leaves_things_as_they_were(run: RunFolder, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    writer = CheckpointWriter(run, keep=1, best=False)
    write(writer, 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(OSError, match="No space left"):
            write(writer, 2)
    assert kept(run) == ["1"]
    write(writer, 3)
    assert kept(run) == ["3"]


def test_one_whose_folder_the_disk_did_not_sync_is_removed_in_its_turn(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointWriter(run, keep=1, best=False)

    def fail(folder: Path) -> None:
        if folder == run.checkpoints:
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "sync_folder", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                write(writer, 1)
    assert kept(run) == ["1", "1-1"]
    write(writer, 2)
    assert kept(run) == ["2"]


def test_half_floats_are_kept_as_they_are() -> None:
    tensor: Tensor = torch.ones(3, dtype=torch.float16)
    assert checkpoint._array(tensor).dtype == np.float16


def test_killed_while_an_old_one_is_removed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it is no checkpoint that could be taken for a damaged one, and goes at the next start."""
    writer = CheckpointWriter(run, keep=1, best=False)
    write(writer, 1)

    def half(folder: Path, **_: object) -> None:
        if folder.name.endswith(".removed") and folder.exists():
            (folder / "weights.safetensors").unlink()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", half)
        with pytest.raises(Killed):
            write(writer, 2)
    assert [paths.order[0] for paths in run.all_checkpoints()] == [2]
    damaged: dict[str, DamagedCheckpointError] = {}
    assert run.newest_read(damaged) is not None and damaged == {}
    CheckpointWriter(run, keep=1, best=False)
    assert kept(run) == ["2"]


def test_a_disk_that_does_not_let_an_old_one_go_keeps_it(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    writer = CheckpointWriter(run, keep=1, best=False)
    write(writer, 1)
    (run.checkpoints / "0000000001").rename(run.checkpoints / "elsewhere")
    write(writer, 2)
    assert "checkpoint 0000000001 could not be removed" in caplog.text
    assert kept(run) == ["2", "elsewhere"]


@pytest.mark.parametrize("name", ["weights", "mean"])
def test_numbers_that_are_not_finite_are_not_written(run: RunFolder, name: str) -> None:
    writer = CheckpointWriter(run, keep=1, best=False)
    write(writer, 1)
    bad = torch.tensor([1.0, float("nan")])
    weights, optimizer = (bad, OPTIMIZER) if name == "weights" else (WEIGHTS, OPTIMIZER | {"mean": bad})
    with pytest.raises(NonFiniteError, match=f"{name} of version 2 are not finite"):
        writer.write(SaveCheckpoint(2, weights, optimizer, {}, None))
    assert kept(run) == ["1"]


def test_a_disk_that_does_not_give_what_there_is_loses_nothing(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=3, best=False)
    for version in (1, 2, 3):
        write(writer, version)
    state = run.checkpoints / "0000000002" / "state.json"
    state.unlink()
    state.symlink_to(state)
    with pytest.raises(UnavailableError, match="the disk does not give it"):
        CheckpointWriter(run, keep=1, best=False)
    assert kept(run) == ["1", "2", "3"]


def test_those_found_damaged_are_not_counted_among_the_kept(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=3, best=False)
    for version in (1, 2, 3):
        write(writer, version)
    write(CheckpointWriter(run, keep=2, best=False, damaged=["0000000003"]), 2)
    assert kept(run) == ["2", "2-1", "3"]


def test_the_one_with_the_highest_score_is_read_or_none(run: RunFolder) -> None:
    writer = CheckpointWriter(run, keep=1, best=True)
    write(writer, 1)
    with pytest.raises(UnavailableError, match="none has a mean return yet"):
        writer.read_best()
    for version, score in ((2, 7.0), (3, 7.0), (4, -1.0)):
        write(writer, version, score)
    assert writer.read_best().version == 3
    (run.checkpoints / "0000000003" / "weights.safetensors").write_bytes(b"damage")
    with pytest.raises(DamagedCheckpointError, match="checksum differs"):
        writer.read_best()
