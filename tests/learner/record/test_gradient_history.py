from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from common.errors import ConfigurationError, DamagedRecordError
from learner.applied import AnyEntry, Began, Stepped
from learner.record.gradient_history import History, Lost, began, frames
from learner.record.gradient_log import FRAME, GradientLog, segments

BEGAN = Began(a3cd="1", run="a-run", epoch=1, settings={}, model="m", parameters=2, version=0, frames=0)


def epoch(folder: Path, number: int, first: int, last: int, segment_bytes: int = 1000) -> None:
    """An epoch that went from one version to another."""
    log = GradientLog(folder, keep_mib=0, segment_bytes=segment_bytes)
    log.append(msgspec.structs.replace(BEGAN, epoch=number, version=first))
    for version in range(first + 1, last + 1):
        log.append(Stepped(version=version, scale=1.0, frames=version))
    log.close()


def versions(history: History) -> list[tuple[int, int]]:
    """Epoch and version of every step of the history."""
    return [
        (piece.epoch.began.epoch, entry.version)
        for piece in history.pieces
        for entry, _ in piece.entries(piece.first, piece.last)
        if isinstance(entry, Stepped)
    ]


def test_the_history_is_that_of_the_newest_weights(tmp_path: Path) -> None:
    """Epoch 2 got nowhere before it died; epoch 4 went back behind epoch 3."""
    for number, first, last in [(1, 0, 50), (2, 40, 40), (3, 40, 60), (4, 30, 70)]:
        epoch(tmp_path, number, first, last)
    history = History.read(tmp_path)
    assert versions(history) == [*((1, version) for version in range(1, 31)), *((4, each) for each in range(31, 71))]
    assert history.lost == [Lost(1, 30, 50), Lost(3, 40, 60)]
    assert (history.first, history.last, history.hole, history.damage) == (0, 70, "", "")
    on = [(version, number) for number in range(1, 5) for version in (0, 30, 31, 60) if history.is_on(version, number)]
    assert on == [(0, 1), (30, 1), (30, 2), (30, 3), (30, 4), (31, 4), (60, 4)]


def test_entries_can_begin_and_end_anywhere(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 60)
    assert len(segments(tmp_path)) > 2
    (piece,) = History.read(tmp_path).pieces
    for after, until in [(0, 60), (7, 8), (31, 59), (59, 60), (60, 60)]:
        found = [entry.version for entry, _ in piece.entries(after, until) if isinstance(entry, Stepped)]
        assert found == list(range(after + 1, until + 1))


def test_a_hole_ends_the_way_back_and_is_named(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 20)
    epoch(tmp_path, 2, 30, 40)
    history = History.read(tmp_path)
    assert (history.first, history.last) == (30, 40)
    assert history.hole == "epoch 1 was recorded up to version 20, not to 30"


def test_what_is_gone_at_the_beginning_ends_the_way_back(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 60)
    epoch(tmp_path, 2, 50, 90)
    (_, _, first), *_ = segments(tmp_path)
    first.unlink()
    history = History.read(tmp_path)
    assert 0 < history.first < 50 and len(history.pieces) == 2
    gone = next(path for number, _, path in segments(tmp_path) if number == 2)
    gone.unlink()
    assert [piece.epoch.began.epoch for piece in History.read(tmp_path).pieces] == [2]
    assert History.read(tmp_path).first > 50


def test_a_file_that_is_cut_in_the_middle_of_an_epoch_is_found(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 60)
    _, (_, _, second), (_, _, third), *_ = segments(tmp_path)
    second.write_bytes(second.read_bytes()[:-100])
    with pytest.raises(DamagedRecordError, match=rf"{third.name}: begins at version \d+, not at \d+"):
        versions(History.read(tmp_path))


def test_damage_at_the_head_of_an_older_file_is_why_it_does_not_go_further_back(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 60)
    (_, _, first), *_ = segments(tmp_path)
    data = bytearray(first.read_bytes())
    data[0] ^= 1
    first.write_bytes(data)
    history = History.read(tmp_path)
    assert (history.first > 0, history.last) == (True, 60)
    assert history.hole == f"{first}: damaged at byte 0: no frame begins there"


@pytest.mark.parametrize("cut", [1, FRAME.size - 1, FRAME.size, FRAME.size + 5])
def test_an_unfinished_frame_is_no_damage(tmp_path: Path, cut: int) -> None:
    epoch(tmp_path, 1, 0, 5)
    ((_, _, path),) = segments(tmp_path)
    whole = path.read_bytes()
    *rest, (last, _) = frames(path)
    assert isinstance(last, Stepped)
    path.write_bytes(whole + whole[:cut])
    assert list(frames(path)) == [*rest, (last, b"")]
    assert History.read(tmp_path).last == 5
    path.write_bytes(whole[:cut])
    with pytest.raises(ConfigurationError, match="nothing is recorded there"):
        History.read(tmp_path)


def test_a_file_that_was_only_opened_is_passed_over(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 5)
    epoch(tmp_path, 2, 3, 7)
    (tmp_path / "000002-000001.log").touch()
    (tmp_path / "000003-000000.log").touch()
    assert versions(History.read(tmp_path))[-1] == (2, 7)


def test_damage_is_named_with_its_place_and_ends_what_can_be_reached(tmp_path: Path) -> None:
    epoch(tmp_path, 1, 0, 60)
    *_, (_, _, path) = segments(tmp_path)
    first = began(path)
    assert first is not None
    data = bytearray(path.read_bytes())
    second = FRAME.size + FRAME.unpack_from(data)[0]
    data[second + FRAME.size + 3] ^= 1
    path.write_bytes(data)
    history = History.read(tmp_path)
    assert (history.last, history.damage) == (
        first.version,
        f"{path}: damaged at byte {second:,}: the frame has another checksum",
    )
    data[0] ^= 1
    path.write_bytes(data)
    history = History.read(tmp_path)
    assert history.last == first.version and history.damage == f"{path}: damaged at byte 0: no frame begins there"


def test_entries_of_another_a3cd_are_named(tmp_path: Path) -> None:
    class Later(msgspec.Struct, tag_field="entry", tag="later"):
        version: int = 1

    odd: AnyEntry = Later()  # type: ignore[assignment]
    log = GradientLog(tmp_path, keep_mib=0)
    log.append(BEGAN)
    log.append(odd)
    log.close()
    ((_, _, path),) = segments(tmp_path)
    with pytest.raises(DamagedRecordError, match="no entry that this a3cd knows"):
        list(frames(path))


def test_files_that_the_disk_does_not_give_are_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedRecordError, match="none: cannot be read: No such file"):
        list(frames(tmp_path / "none"))
