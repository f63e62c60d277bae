from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event

from common.run.folder import RunFolder
from learner.record.metrics import MetricsWriter, repair, rows

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
    writer = MetricsWriter(run)
    writer.row(12.5, {"frames": 10, "mean_return": NAN, "lag": INF, "why": "start", "goal": None})
    lines = run.metrics_file.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"time": 12.5, "frames": 10, "mean_return": None, "lag": None, "why": "start", "goal": None}
    ]
    writer.row(13.5, {"frames": 20})
    assert [row["frames"] for row in rows(run.metrics_file)] == [10, 20]
    writer.close()
    assert events(run.events) == [(10, "frames", 10.0), (20, "frames", 20.0)]


def test_rows_without_frames_are_at_step_0(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run)
    writer.row(1.0, {"lag": 2, "why": "text"})
    writer.close()
    assert events(run.events) == [(0, "lag", 2.0)]


def test_a_new_writer_goes_on_after_a_half_line(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.write_text('{"frames":1}\n{"frames":2}\n{"fra')
    writer = MetricsWriter(run)
    writer.row(3.0, {"frames": 3})
    writer.close()
    assert [json.loads(line)["frames"] for line in run.metrics_file.read_text().splitlines()] == [1, 2, 3]


class Full:
    """A disk that is full."""

    def write(self, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    write_event = write

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("full", "kind"), [("_file", "metrics"), ("_events", "TensorBoard")])
def test_a_full_disk_is_reported_once_and_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, full: str, kind: str
) -> None:
    run = RunFolder(tmp_path)
    writer = MetricsWriter(run)
    getattr(writer, full).close()
    setattr(writer, full, Full())
    writer.row(1.0, {"frames": 1})
    writer.row(2.0, {"frames": 2})
    writer.close()
    reports = [record.message for record in caplog.records]
    assert reports == [f"{kind}: no more rows are written: [Errno 28] No space left on device"]
    assert (len(rows(run.metrics_file)), len(events(run.events))) == ((0, 2) if full == "_file" else (2, 0))


def test_a_folder_of_events_that_cannot_be_made_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder(tmp_path)
    run.events.touch()
    writer = MetricsWriter(run)
    writer.row(1.0, {"frames": 1})
    writer.close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["TensorBoard"]
    assert len(rows(run.metrics_file)) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\n"), (b"half", b""), (b"a\n\n", b"a\n\n")],
)
def test_repair(tmp_path: Path, before: bytes, after: bytes) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(before)
    repair(file)
    assert file.read_bytes() == after


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    repair(tmp_path / "none")
    assert rows(tmp_path / "none") == []


def test_rows_a_resumed_run_went_back_behind_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    frames = [10, 20, 20, 30, 40, 25, 35, 50, 22]
    file.write_text("".join(f'{{"frames":{count},"n":{n}}}\n' for n, count in enumerate(frames)))
    assert [(row["frames"], row["n"]) for row in rows(file)] == [(10, 0), (20, 1), (20, 2), (22, 8)]


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b'{"frames":1}', b'{"frames":"x"}', b"[1]", b"3"]))))
def test_any_bytes_give_rows_with_frames(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / "metrics.jsonl"
    file.write_bytes(b"\n".join(lines))
    found: list[dict[str, Any]] = rows(file)
    assert len(found) >= lines.count(b'{"frames":1}') - 1
    assert all(isinstance(row["frames"], int | float) for row in found)
