from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.plain_file import create, open_or_create

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


@posix
@pytest.mark.parametrize("target", ["there", "not there"])
def test_a_file_is_created_in_place_of_a_link_and_not_where_it_leads(tmp_path: Path, target: str) -> None:
    other, path = tmp_path / "other", tmp_path / "new"
    if target == "there":
        other.write_text("precious")
    path.symlink_to(other)
    with create(path) as file:
        file.write(b"bytes")
    assert (path.is_symlink(), path.read_bytes()) == (False, b"bytes")
    assert (other.read_text() if target == "there" else other.exists()) in ("precious", False)


@posix
def test_a_link_that_is_made_between_removing_and_creating_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, path = tmp_path / "other", tmp_path / "new"
    other.write_text("precious")
    path.symlink_to(other)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(FileExistsError):
        create(path)
    assert other.read_text() == "precious"


def test_a_file_is_opened_as_it_is_or_created(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    file, new = open_or_create(path)
    with file:
        file.write(b"bytes")
    assert new
    file, new = open_or_create(path)
    with file:
        assert (new, file.read()) == (False, b"bytes")


@posix
@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "lock", tmp_path / "other"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(other)
    if kind == "link":
        other.touch()
    with pytest.raises(ConfigurationError, match="lock: cannot be used: it is a link, a pipe or a device"):
        open_or_create(path)
    assert other.exists() == (kind == "link")


@posix
def test_a_folder_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_or_create(tmp_path)
