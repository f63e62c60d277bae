from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.run.folder import RunFolder
from learner.record import metrics
from learner.record.metrics import MetricsWriter, repair, rows

INF, NAN = float("inf"), float("nan")


class FakeTensorBoard:
    """Keeps what it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.closed = folder, list[tuple[int, dict[str, float]]](), False

    def add(self, step: int, values: dict[str, float]) -> None:
        self.rows.append((step, values))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> list[FakeTensorBoard]:
    made: list[FakeTensorBoard] = []

    def make(folder: Path) -> FakeTensorBoard:
        made.append(FakeTensorBoard(folder))
        return made[-1]

    monkeypatch.setattr(metrics, "TensorBoard", make)
    return made


def test_rows_are_there_at_once(tmp_path: Path, tensorboard: list[FakeTensorBoard]) -> None:
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
    assert tensorboard[0].folder == run.events
    assert tensorboard[0].rows == [(10, {"frames": 10.0}), (20, {"frames": 20.0})]
    assert tensorboard[0].closed


def test_rows_without_frames_are_at_step_0(tmp_path: Path, tensorboard: list[FakeTensorBoard]) -> None:
    writer = MetricsWriter(RunFolder(tmp_path))
    writer.row(1.0, {"lag": 2})
    writer.close()
    assert tensorboard[0].rows == [(0, {"lag": 2.0})]


def test_a_new_writer_goes_on_after_a_half_line(tmp_path: Path, tensorboard: list[FakeTensorBoard]) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.write_text('{"frames":1}\n{"frames":2}\n{"fra')
    writer = MetricsWriter(run)
    writer.row(3.0, {"frames": 3})
    writer.close()
    assert [json.loads(line)["frames"] for line in run.metrics_file.read_text().splitlines()] == [1, 2, 3]


def test_a_full_disk_is_reported_once_and_survived(
    tmp_path: Path, tensorboard: list[FakeTensorBoard], caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    writer = MetricsWriter(RunFolder(tmp_path))
    writer._file.close()
    writer._file = Full()  # type: ignore[assignment]
    writer.row(1.0, {"frames": 1})
    writer.row(2.0, {"frames": 2})
    writer.close()
    assert [record.message for record in caplog.records] == [
        "metrics are no longer written: [Errno 28] No space left on device"
    ]
    assert len(tensorboard[0].rows) == 2


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
