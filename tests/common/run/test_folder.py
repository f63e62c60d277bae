from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save

from common.errors import ConfigurationError, DamagedCheckpointError, UnavailableError
from common.rl.named_tensors import NamedTensor, plain_tensor, to_tensors
from common.run.folder import CheckpointPaths, RunFolder, RunRecord, default_path
from tests.helpers.status import evaluation_status

RECORD = '{"run": "0123456789abcdef", "created": "2026-01-01T00:00:00+00:00", "epoch": 2, "a3cd": "0.1.0"}'


def name_of(paths: CheckpointPaths | None) -> str:
    return paths.folder.name if paths else "none"


def checkpoint(
    run: Path,
    name: str,
    score: float | None = None,
    weights: bytes | None = None,
    evaluated: float | None = None,
) -> CheckpointPaths:
    paths = CheckpointPaths(run / "checkpoints" / name)
    paths.folder.mkdir(parents=True)
    paths.weights_file.write_bytes(weights or save({"weights": np.arange(5, dtype=np.float32)}))
    paths.optimizer_file.write_bytes(save({"mean": np.ones(5, np.float32), "steps": np.array(3)}))
    checksums = {file.name: zlib.crc32(file.read_bytes()) for file in (paths.weights_file, paths.optimizer_file)}
    head = {"version": 7, "score": score, "state": {"frames": 100}, "checksums": checksums}
    if evaluated is not None:
        head["evaluation"] = msgspec.to_builtins(evaluation_status(mean=evaluated))
    paths.state_file.write_text(json.dumps(head))
    return paths


def test_layout(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    names = {
        "settings.toml": run.settings_file,
        "run.json": run.run_file,
        "lock": run.lock_file,
        "metrics.jsonl": run.metrics_file,
        "events": run.events,
        "checkpoints": run.checkpoints,
        "curve.png": run.curve,
        "summary.json": run.summary_file,
    }
    assert names == {name: tmp_path / name for name in names}


def test_needs_no_torch() -> None:
    code = "import sys, common.run.folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3]).returncode == 0


def test_record_and_settings(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(RECORD)
    (tmp_path / "settings.toml").write_text("seed = 5")
    run = RunFolder(tmp_path)
    assert run.record() == RunRecord(run="0123456789abcdef", created="2026-01-01T00:00:00+00:00", epoch=2, a3cd="0.1.0")
    assert run.settings().seed == 5


def test_no_run(tmp_path: Path) -> None:
    message = re.escape(f"{tmp_path}: holds no run (there is no run.json)")
    with pytest.raises(ConfigurationError, match=message):
        RunFolder(tmp_path).record()
    with pytest.raises(ConfigurationError, match=message):
        RunFolder(tmp_path).settings()


def test_a_run_without_settings(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(RECORD)
    with pytest.raises(ConfigurationError, match=r"settings\.toml: No such file"):
        RunFolder(tmp_path).settings()


@pytest.mark.parametrize("name", ["run.json", "settings.toml", "summary.json"])
def test_files_that_are_too_long_are_not_read(tmp_path: Path, name: str) -> None:
    run = RunFolder(tmp_path)
    run.run_file.write_text(RECORD)
    with (tmp_path / name).open("ab") as file:
        file.truncate(2**40)  # of holes, which take no room on the disk but would in memory
    look = run.settings if name == "settings.toml" else run.summary
    with pytest.raises(ConfigurationError, match=f"{name}: cannot be read: it has more than"):
        look()


@given(st.binary(max_size=60))
def test_a_record_that_cannot_be_read_is_named(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    run = RunFolder(tmp_path_factory.getbasetemp())
    run.run_file.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"run\.json: cannot be read"):
        run.record()


def test_the_summary_of_the_newest_epoch(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.run_file.write_text(RECORD)
    assert run.summary() == {}, "the run goes on"
    run.summary_file.write_text('{"epoch": 1, "state": "stopped"}')
    assert run.summary() == {}, "it was started again"
    run.summary_file.write_text('{"epoch": 2, "state": "reached"}')
    assert run.summary() == {"epoch": 2, "state": "reached"}


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"epoch": 2'])
def test_a_summary_that_cannot_be_read_is_named(tmp_path: Path, data: bytes) -> None:
    run = RunFolder(tmp_path)
    run.run_file.write_text(RECORD)
    run.summary_file.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"summary\.json: cannot be read"):
        run.summary()


def test_read_gives_everything(tmp_path: Path) -> None:
    read = checkpoint(tmp_path, "7", score=1.5).read()
    assert (read.version, read.score, read.state) == (7, 1.5, {"frames": 100})
    np.testing.assert_array_equal(read.weights, np.arange(5, dtype=np.float32))
    assert read.weights.dtype == np.float32
    assert sorted(read.optimizer) == ["mean", "steps"]
    assert read.optimizer["steps"].shape == ()
    assert read.optimizer["steps"] == 3


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_missing_file_is_damage(tmp_path: Path, name: str) -> None:
    paths = checkpoint(tmp_path, "7")
    (paths.folder / name).unlink()
    with pytest.raises(DamagedCheckpointError, match=re.escape(f"{name}: ") + ".*No such file"):
        paths.read()


@given(name=st.sampled_from(["weights.safetensors", "optimizer.safetensors"]), data=st.data())
def test_cut_or_altered_tensors_are_damage(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    paths = checkpoint(tmp_path_factory.mktemp("run"), "7")
    file = paths.folder / name
    whole = file.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        file.write_bytes(whole[:place])
    else:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(DamagedCheckpointError, match=re.escape(f"{name}: checksum differs")):
        paths.read()


@given(st.binary(max_size=80))
def test_any_state_is_read_or_damage(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    paths = CheckpointPaths(tmp_path_factory.getbasetemp())
    paths.state_file.write_bytes(data)
    with pytest.raises(DamagedCheckpointError, match=r"state\.json: "):
        paths.read()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (b"no tensors at all", "weights.safetensors: Error"),
        (save({"other": np.zeros(5, np.float32)}), "is neither named tensors nor one float32 vector named weights"),
        (save({"weights": np.zeros(5, np.float64)}), "nor one float32 vector"),
        (save({"weights": np.zeros((5, 1), np.float32)}), "nor one float32 vector"),
    ],
)
def test_what_is_not_a_vector_of_weights_is_damage(tmp_path: Path, weights: bytes, message: str) -> None:
    with pytest.raises(DamagedCheckpointError, match=message):
        checkpoint(tmp_path, "7", weights=weights).read()


LAID_OUT = [NamedTensor("b", (2, 3), (1, 0), (3, 2)), plain_tensor("a", 2)]


def laid_out(layout: object, **tensors: NDArray[Any]) -> bytes:
    return save(tensors, {"vector": msgspec.json.encode(layout).decode()})


def test_named_tensors_are_read_as_the_vector_they_were(tmp_path: Path) -> None:
    vector = np.arange(8, dtype=np.float32)
    paths = checkpoint(tmp_path, "7", weights=laid_out(LAID_OUT, **to_tensors(vector, LAID_OUT)))
    np.testing.assert_array_equal(paths.read().weights, vector)


A, B = np.zeros(2, np.float32), np.zeros((3, 2), np.float32)


@pytest.mark.parametrize(
    "weights",
    [
        laid_out(LAID_OUT, a=A),
        laid_out(LAID_OUT, a=A, b=B, c=A),
        laid_out(LAID_OUT, a=A, b=B.T.copy()),
        laid_out(LAID_OUT, a=A.astype(np.float64), b=B),
        laid_out([["a", [2], [1], [2]]], a=A),
        laid_out([["a", [-1], [0], [2]]], a=A),
        laid_out([["a", [2**62], [0], [2]]], a=A),
        laid_out([["a", [1] * 40 + [2], list(range(41)), [2]]], a=A),
        laid_out("nonsense", a=A),
    ],
)
def test_tensors_that_do_not_fit_their_layout_are_damage(weights: bytes, tmp_path: Path) -> None:
    with pytest.raises(DamagedCheckpointError, match=r"weights\.safetensors: "):
        checkpoint(tmp_path, "7", weights=weights).read()


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.all_checkpoints() == []
    assert run.newest() is None
    assert run.best() is None


def test_checkpoints_are_in_order_of_version_and_writing(tmp_path: Path) -> None:
    for name in ("10", "9", "0000000010-2", "10-1", ".11.partial", "notes"):
        checkpoint(tmp_path, name)
    names = [paths.folder.name for paths in RunFolder(tmp_path).all_checkpoints()]
    assert names == ["9", "10", "10-1", "0000000010-2"]


def test_newest_and_best(tmp_path: Path) -> None:
    for name, score in (("1", 5.0), ("2", 9.0), ("3", 9.0), ("4", None), ("5", -1.0)):
        checkpoint(tmp_path, name, score)
    run = RunFolder(tmp_path)
    assert name_of(run.newest()) == "5"
    assert name_of(run.best()) == "3"


def test_the_best_by_an_evaluation_goes_before_the_best_by_training(tmp_path: Path) -> None:
    for name, score, evaluated in (("1", 5.0, None), ("2", None, 7.0), ("3", 1.0, 6.0), ("4", 99.0, None)):
        checkpoint(tmp_path, name, score, evaluated=evaluated)
    best = RunFolder(tmp_path).best()
    assert best is not None
    assert name_of(best) == "2"
    assert best.read().evaluation == evaluation_status(mean=7.0)


def test_the_best_without_scores_is_the_newest(tmp_path: Path) -> None:
    checkpoint(tmp_path, "1")
    checkpoint(tmp_path, "2")
    assert name_of(RunFolder(tmp_path).best()) == "2"


def test_damaged_checkpoints_are_passed_over_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint(tmp_path, "1", 1.0)
    checkpoint(tmp_path, "2", 2.0).weights_file.write_bytes(b"")
    (tmp_path / "checkpoints" / "3").mkdir()
    run = RunFolder(tmp_path)
    assert name_of(run.newest()) == "1"
    assert name_of(run.best()) == "1"
    assert "checkpoint 2 is damaged and passed over" in caplog.text
    assert "checkpoint 3 is damaged and passed over" in caplog.text


def test_where_no_checkpoint_is_whole_there_is_none_to_take_for_no_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path, "1").weights_file.write_bytes(b"")
    checkpoint(tmp_path, "2").state_file.unlink()
    run = RunFolder(tmp_path)
    message = re.escape(f"{run.checkpoints}: none of the checkpoints there is whole (") + r".*2/state\.json: No such"
    for look in (run.newest, run.best, lambda: run.newest_read({})):
        with pytest.raises(DamagedCheckpointError, match=message) as caught:
            look()
        assert caught.value.exit_code == 78


FAULTS = [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE]


@pytest.mark.parametrize("number", FAULTS)
@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_what_the_disk_does_not_give_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    checkpoint(tmp_path, "1")
    bad = checkpoint(tmp_path, "2").folder / name
    genuine = Path.read_bytes

    def read(path: Path) -> bytes:
        if path == bad:
            raise OSError(number, os.strerror(number), str(path))
        return genuine(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    run = RunFolder(tmp_path)
    for look in (run.newest, run.best, lambda: run.newest_read({})):
        with pytest.raises(UnavailableError, match=re.escape(f"{bad}: the disk does not give it: ")):
            look()


def test_a_link_in_a_circle_is_a_fault_that_needs_no_patch(tmp_path: Path) -> None:
    paths = checkpoint(tmp_path, "1")
    paths.state_file.unlink()
    paths.state_file.symlink_to(paths.state_file)
    with pytest.raises(UnavailableError, match="Too many levels of symbolic links"):
        RunFolder(tmp_path).newest()


@pytest.mark.parametrize("number", FAULTS)
def test_folders_and_records_that_the_disk_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    checkpoint(tmp_path, "1")
    (tmp_path / "run.json").write_text(RECORD)
    (tmp_path / "settings.toml").write_text("")
    run = RunFolder(tmp_path)
    assert run.holds_run()

    def fail(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    look_up = Path.stat
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda path, **_: (fail if path.name == "settings.toml" else look_up)(path))
        with pytest.raises(UnavailableError, match=r"settings\.toml"):
            run.settings()
    for name in ("iterdir", "stat"):
        monkeypatch.setattr(Path, name, fail)
    for look in (run.record, run.all_checkpoints, run.holds_run, run.settings):
        with pytest.raises(UnavailableError, match="cannot be read now"):
            look()


def test_a_checkpoint_of_numbers_that_are_not_finite_is_passed_over(tmp_path: Path) -> None:
    checkpoint(tmp_path, "1")
    checkpoint(tmp_path, "2", weights=save({"weights": np.array([1, np.nan], np.float32)}))
    damaged: dict[str, DamagedCheckpointError] = {}
    assert RunFolder(tmp_path).newest_read(damaged) is not None
    assert list(damaged) == ["2"]
    assert "weights is not finite" in str(damaged["2"])


def test_default_path_names_the_environment() -> None:
    assert re.fullmatch(r"runs/ALE-Pong-v5-\d{8}-\d{6}", default_path("some_module:ALE/Pong-v5").as_posix())
