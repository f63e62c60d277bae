from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from common.host.atomic_file import replace_file, sync_folder, write_synced


def test_write_synced(tmp_path: Path) -> None:
    write_synced(tmp_path / "a", b"bytes")
    assert (tmp_path / "a").read_bytes() == b"bytes"


def test_replace_file(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", b"old")
    replace_file(tmp_path / "a", b"new")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a", b"new")]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_the_old_content_stands_when_replacing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    replace_file(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "a", b"new")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a", b"old")]


def test_sync_folder_passes_over_folders_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    sync_folder(tmp_path)
    monkeypatch.setattr(os, "open", refuse)
    sync_folder(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_sync_folder_passes_over_file_systems_that_cannot_synchronize_folders() -> None:
    folder = os.open("/proc", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            os.fsync(folder)
    finally:
        os.close(folder)
    sync_folder(Path("/proc"))
