from __future__ import annotations

import os
import stat
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


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("keep_access", [False, True])
def test_a_link_with_the_name_of_the_partial_file_leads_nowhere(tmp_path: Path, keep_access: bool) -> None:
    """Of a file of root's, an edit by root of another user's list would change the content, the owner and the mode."""
    other, path = tmp_path / "other", tmp_path / "folder" / "a"
    other.write_text("precious")
    other.chmod(0o600)
    path.parent.mkdir()
    if os.geteuid() == 0:
        os.chown(path.parent, 12, 34)
    (path.parent / ".a.partial").symlink_to(other)
    before = other.stat()
    replace_file(path, b"new", keep_access=keep_access)
    after = other.stat()
    assert (other.read_text(), after.st_mode, after.st_uid) == ("precious", before.st_mode, before.st_uid)
    assert [(entry.name, entry.is_symlink(), entry.read_bytes()) for entry in path.parent.iterdir()] == [
        ("a", False, b"new")
    ]


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_write_synced_replaces_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "a").symlink_to(other)
    write_synced(tmp_path / "a", b"bytes")
    assert ((tmp_path / "a").read_bytes(), other.read_text()) == (b"bytes", "precious")


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_new_file_has_no_special_bits(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o4750)
    replace_file(tmp_path / "a", b"new", keep_access=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750


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
