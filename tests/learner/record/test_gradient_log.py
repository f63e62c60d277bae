from __future__ import annotations

import errno
import os
import resource
import zlib
from pathlib import Path

import msgspec
import pytest

from common.host.process import open_descriptors
from learner.applied import Added, AnyEntry, Began, Saved, Stepped
from learner.record.gradient_log import FRAME, MOST_OPEN, GradientLog, segments
from tests.helpers.run import gradient_of

BEGAN = Began(a3cd="1", run="a-run", epoch=3, settings={"seed": 0}, model="m", parameters=2, version=7, frames=140)
BODY = b"body" * 100


def added(sequence: int) -> Added:
    return Added(peer="a", incarnation="a-1", header=gradient_of(sequence, 7), weight=0.5, lag=1)


def frames(path: Path) -> list[tuple[AnyEntry, bytes]]:
    """Read in the plainest way."""
    data, found = path.read_bytes(), []
    while data:
        entry_bytes, body_bytes, _, checksum = FRAME.unpack_from(data)
        end = FRAME.size + entry_bytes + body_bytes
        entry, body = data[FRAME.size : FRAME.size + entry_bytes], data[FRAME.size + entry_bytes : end]
        assert zlib.crc32(entry + body) == checksum
        found.append((msgspec.msgpack.decode(entry, type=AnyEntry), body))
        data = data[end:]
    return found


def write(log: GradientLog, steps: int, sequence: int = 1, version: int = 8) -> None:
    for number in range(steps):
        log.append(added(sequence + number), memoryview(BODY))
        log.append(Stepped(version=version + number, scale=0.5, frames=160 + number, checksum=number))


def test_entries_and_bodies_stand_in_order_and_nothing_is_written_before_the_first(tmp_path: Path) -> None:
    log = GradientLog(tmp_path / "gradients", keep_mib=0)
    assert log.saved(7) is None
    assert not (tmp_path / "gradients").exists()
    log.append(BEGAN)
    write(log, 2)
    sync = log.saved(9)
    log.close()
    assert sync is not None
    sync()
    ((epoch, number, path),) = segments(tmp_path / "gradients")
    assert (epoch, number) == (3, 0)
    assert frames(path) == [
        (BEGAN, b""),
        (added(1), BODY),
        (Stepped(version=8, scale=0.5, frames=160, checksum=0), b""),
        (added(2), BODY),
        (Stepped(version=9, scale=0.5, frames=161, checksum=1), b""),
        (Saved(version=9), b""),
    ]


def test_a_file_is_left_after_the_step_that_fills_it_and_each_begins_by_itself(tmp_path: Path) -> None:
    log = GradientLog(tmp_path, keep_mib=0, segment_bytes=2000)
    log.append(BEGAN)
    write(log, 10)
    sync = log.saved(17)
    assert sync is not None
    log.append(added(99), BODY)
    sync()
    log.close()
    paths = [path for _, _, path in segments(tmp_path)]
    assert len(paths) > 2
    version = 7
    for path in paths:
        (first, _), *rest = frames(path)
        assert first == msgspec.structs.replace(
            BEGAN, version=version, frames=first.frames, checksum=None if version == 7 else version - 8
        )
        version = max([version, *(entry.version for entry, _ in rest if isinstance(entry, Stepped))])
        assert all(path.stat().st_size >= 2000 for path in paths[:-1])
    assert version == 17


def test_the_oldest_files_go_also_those_of_other_epochs(tmp_path: Path) -> None:
    for epoch in (3, 4):
        log = GradientLog(tmp_path, keep_mib=1, segment_bytes=2**18)
        log.append(msgspec.structs.replace(BEGAN, epoch=epoch))
        for version in range(8, 18):
            log.append(added(version), bytes(2**17))
            log.append(Stepped(version=version, scale=1.0, frames=version))
        log.close()
        found = segments(tmp_path)
        assert sum(path.stat().st_size for _, _, path in found) <= 2**20
    assert [(epoch, number) for epoch, number, _ in found] == [(4, number) for number in range(3, 6)]


@pytest.mark.parametrize(("keep_mib", "most"), [(0, MOST_OPEN), (1, 4)])
def test_without_checkpoints_few_files_are_open_and_none_that_is_removed(
    tmp_path: Path, keep_mib: int, most: int
) -> None:
    before = open_descriptors()
    log = GradientLog(tmp_path, keep_mib=keep_mib, segment_bytes=2**18)
    log.append(BEGAN)
    for version in range(8, 48):
        log.append(added(version), bytes(2**18))
        log.append(Stepped(version=version, scale=1.0, frames=version))
        assert open_descriptors() - before <= most
    sync = log.saved(48)
    assert sync is not None and not log.failed
    sync()
    log.close()


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert segments(tmp_path) == []
    assert segments(tmp_path / "none") == []


def test_a_disk_that_takes_no_more_ends_the_recording_with_whole_frames(tmp_path: Path) -> None:
    """The kernel's limit on a file's size does what a full disk does: a part is written, then there is an error."""
    log = GradientLog(tmp_path, keep_mib=0)
    log.append(BEGAN)
    write(log, 1)
    ((_, _, path),) = segments(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append(added(2), BODY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.failed
    log.append(added(3), BODY)
    assert log.saved(8) is None
    assert [type(entry) for entry, _ in frames(path)] == [Began, Added, Stepped]


def test_a_disk_that_complains_only_when_files_are_closed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does over its quota. What a checkpoint relies on was brought to the disk, or reported, before that."""
    closed: list[int] = []

    def close(descriptor: int) -> None:
        closed.append(descriptor)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    log = GradientLog(tmp_path, keep_mib=0, segment_bytes=1)
    log.append(BEGAN)
    write(log, 1)
    files = sorted(log._files)
    monkeypatch.setattr(os, "close", close)
    log.close()
    monkeypatch.undo()
    assert sorted(closed) == files and len(files) == 2
    for file in files:
        os.close(file)
