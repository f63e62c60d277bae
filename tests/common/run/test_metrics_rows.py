from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.run import metrics_rows
from common.run.metrics_rows import MetricsRows, Place
from learner.record import metrics_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def line(frames: int, **more: Any) -> str:
    return json.dumps({"time": 1e9 + frames, "frames": frames, "seconds": float(frames), **more}) + "\n"


def write(file: Path, *frames: int, mode: str = "a") -> None:
    with file.open(mode) as opened:
        opened.write("".join(map(line, frames)))


def frames(rows: list[dict[str, Any]]) -> list[int]:
    return [row["frames"] for row in rows]


def test_rows_come_as_they_are_written(file: Path) -> None:
    rows = MetricsRows(file)
    assert rows.next(10) == []
    write(file, 1, 2, 3)
    assert frames(rows.next(2)) == [1, 2]
    assert frames(rows.next(2)) == [3]
    assert rows.next(2) == []
    write(file, 4)
    (row,) = rows.next(2)
    assert (row["frames"], rows.place.rows, rows.place.time) == (4, 4, 1e9 + 4)


def test_half_a_line_is_waited_for_and_what_is_no_row_is_left_out(file: Path) -> None:
    rows = MetricsRows(file)
    whole = line(1)
    file.write_text(whole[:10])
    assert rows.next(9) == []
    file.write_text(whole + "nonsense\n\xff\n[1]\n" + line(2))
    assert frames(rows.next(9)) == [1, 2]


@pytest.mark.parametrize("told", [0, 1, 2, 3])
def test_it_goes_on_behind_the_place_that_was_kept(file: Path, told: int) -> None:
    write(file, 1, 2, 3)
    first = MetricsRows(file)
    first.next(told)
    again = MetricsRows(file, first.place)
    found = again.next(9)
    assert frames(found) == [1, 2, 3][told:]
    assert again.place.rows == 3


def test_a_file_that_was_thinned_is_gone_on_with_behind_the_same_row(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_file, "KEPT", ((10.0, 0.0),))
    write(file, *range(100))
    rows = MetricsRows(file)
    assert len(rows.next(95)) == 95
    metrics_file.thin(file)
    assert len(file.read_text().splitlines()) < 50
    write(file, 100)
    assert frames(rows.next(99)) == [95, 96, 97, 98, 99, 100]


def test_rows_behind_a_place_that_is_gone_are_those_that_came_later(file: Path) -> None:
    """The run went back to its checkpoint, and what was told of beyond it has been left out since."""
    write(file, 1, 2, 3, 4)
    rows = MetricsRows(file)
    rows.next(9)
    fewer = file.with_name("fewer")
    fewer.write_text(line(1) + line(2) + line(3, time=2e9) + line(4, time=2e9 + 1))
    fewer.replace(file)
    assert [row["time"] for row in rows.next(9)] == [2e9, 2e9 + 1]
    assert rows.place.rows == 6


def test_nothing_is_told_twice_of_a_file_that_has_less_than_the_place(file: Path) -> None:
    write(file, 1, 2, 3)
    rows = MetricsRows(file)
    rows.next(9)
    write(file, 1, 2, mode="w")
    assert rows.next(9) == []
    write(file, 9)
    assert frames(rows.next(9)) == [9]


@pytest.mark.parametrize("place", [Place(), Place(rows=1, crc=1, time=5.0)])
def test_a_row_without_end_is_not_read_into_memory(file: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_rows, "ROW_BYTES", 100)
    write(file, 1)
    with file.open("a") as opened:
        opened.write("x" * 101)
    with pytest.raises(ConfigurationError, match=r"metrics\.jsonl: cannot be read: a row has more than 100 bytes"):
        MetricsRows(file, place).next(10)
