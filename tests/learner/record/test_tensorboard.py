from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event

from learner.record.tensorboard import TensorBoard


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


def test_rows_are_in_the_event_file_after_close(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "events")
    board.add(10, {"mean_return": 1.5, "lag": 2.0})
    board.add(20, {"mean_return": 2.5})
    board.close()
    assert events(tmp_path / "events") == [(10, "mean_return", 1.5), (10, "lag", 2.0), (20, "mean_return", 2.5)]


def test_a_folder_that_cannot_be_made_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "events").touch()
    board = TensorBoard(tmp_path / "events")
    for step in range(3):
        board.add(step, {"x": 1.0})
    board.close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["nothing more is written for TensorBoard"]


def test_a_full_disk_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    board = TensorBoard(tmp_path / "events")
    monkeypatch.setattr(EventsWriter, "write_event", full)
    for step in range(3):
        board.add(step, {"x": 1.0})
    board.close()
    assert len(caplog.records) == 1 and "no space left" in caplog.text
