"""With the real library, offline: what it has written down is read as it would be sent."""

from __future__ import annotations

import json
import struct
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
    wandb = pytest.importorskip("wandb", reason="needs the extra wandb")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
BLOCK, HEAD = 2**15, struct.Struct("<IHB")
"""Its file is a log of LevelDB's: records in pieces, each with a checksum, a length and whether it is the last one."""


def track(folder: Path, project: str = "p") -> Outcome:
    return Follower(RunFolder(folder), "wandb", Target(project, offline=True)).follow(lambda pause: pause > 0)


def records(file: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    data, at, record = file.read_bytes(), 7, b""
    while at + HEAD.size <= len(data):
        if BLOCK - at % BLOCK < HEAD.size:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = HEAD.unpack_from(data, at)
        record += data[at + HEAD.size : at + HEAD.size + size]
        at += HEAD.size + size
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def written(folder: Path) -> list[Any]:
    """The records of all files, oldest first."""
    files = sorted((folder / "trackers" / "wandb").glob("offline-run-*/run-*.wandb"))
    return [record for file in files for record in records(file)]


def items(some: Any) -> dict[str, Any]:
    return {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in some}


def history(folder: Path) -> list[dict[str, Any]]:
    return [items(record.history.item) for record in written(folder) if record.WhichOneof("record_type") == "history"]


def test_a_run_is_there_with_its_rows_its_settings_and_its_end(tmp_path: Path) -> None:
    returns = [float(value) for value in range(500)]
    folder = run_folder(tmp_path / "mine", "optimizer.learning_rate=0.25", returns=returns, summary={})
    assert track(folder) == Outcome(500, "reached")
    begun = next(record.run for record in written(folder) if record.WhichOneof("record_type") == "run")
    assert (begun.run_id, begun.display_name, begun.project) == ("0123456789abcdef", "mine", "p")
    assert items(begun.config.update)["optimizer.learning_rate"] == 0.25
    rows = history(folder)
    assert [(row["_step"], row["frames"], row["mean_return"]) for row in rows] == [
        (number, 1000 * (number + 1), value) for number, value in enumerate(returns)
    ]
    ends: dict[str, Any] = {}
    for record in written(folder):
        ends |= items(record.summary.update)
    summary = json.loads((folder / "summary.json").read_text())
    assert ends["summary/mean_return"] == ends["mean_return"] == summary["mean_return"] == 499.0
    assert ends["state"] == "reached"


def test_a_run_that_goes_on_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "QUIET_SECONDS", 0.0)
    folder = run_folder(tmp_path / "mine", returns=[1.0])
    assert track(folder) == Outcome(1, "interrupted")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"frames": 3000, "mean_return": 3.0, "time": 1e9}\n')
    assert track(folder) == Outcome(1, "interrupted")
    assert [(row["_step"], row["mean_return"]) for row in history(folder)] == [(0, 1.0), (1, 3.0)]
    assert history(folder)[1]["_timestamp"] == 1e9, "when it happened, not when it was told"


def test_a_project_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Weights & Biases: Invalid project name 'a/b'"):
        track(run_folder(tmp_path / "mine"), "a/b")
