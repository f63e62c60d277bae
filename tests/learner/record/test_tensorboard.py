from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import tensorboardX
from tensorboardX.proto.event_pb2 import Event

from learner.record import tensorboard
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


@pytest.mark.usefixtures("nothing_left_behind")
def test_rows_are_in_the_event_file_after_close(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "events")
    board.add(10, {"mean_return": 1.5, "lag": 2.0})
    board.add(20, {"mean_return": 2.5})
    board.close()
    assert events(tmp_path / "events") == [(10, "mean_return", 1.5), (10, "lag", 2.0), (20, "mean_return", 2.5)]


def test_a_folder_that_cannot_be_made_is_reported_and_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "events").touch()
    board = TensorBoard(tmp_path / "events")
    for step in range(3):
        board.add(step, {"x": 1.0})
    board.close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["nothing more is written for TensorBoard"]
    assert not board._thread.is_alive()


class SlowWriter:
    """Writes nothing until it is let go."""

    go = threading.Event()
    begun = threading.Event()

    def __init__(self, folder: str) -> None:
        pass

    def add_scalar(self, *_: object) -> None:
        self.begun.set()
        self.go.wait()

    def close(self) -> None:
        pass


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> type[SlowWriter]:
    SlowWriter.go.clear()
    SlowWriter.begun.clear()
    monkeypatch.setattr(tensorboardX, "SummaryWriter", SlowWriter)
    monkeypatch.setattr(tensorboard, "QUEUE", 2)
    return SlowWriter


@pytest.mark.usefixtures("nothing_left_behind")
def test_rows_a_slow_disk_has_no_room_for_are_dropped_and_counted(
    tmp_path: Path, slow: type[SlowWriter], caplog: pytest.LogCaptureFixture
) -> None:
    board = TensorBoard(tmp_path)
    board.add(0, {"x": 1.0})
    assert slow.begun.wait(10)
    for step in range(1, 6):
        board.add(step, {"x": 1.0})
    slow.go.set()
    board.close()
    assert [record.message for record in caplog.records] == [
        "TensorBoard's events are not complete (3 rows dropped): the disk is too slow"
    ]


@pytest.mark.parametrize("waiting", [1, 3])
def test_closing_does_not_wait_for_ever(
    tmp_path: Path,
    slow: type[SlowWriter],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    waiting: int,
) -> None:
    monkeypatch.setattr(tensorboard, "CLOSING_SECONDS", 0.01)
    board = TensorBoard(tmp_path)
    board.add(0, {"x": 1.0})
    assert slow.begun.wait(10)
    for step in range(1, waiting):
        board.add(step, {"x": 1.0})
    board.close()
    assert "events are not complete" in caplog.text
    slow.go.set()
    if waiting == 3:
        board._rows.put(None)
    board._thread.join()
