from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.plain_file import create, open_or_create, open_to_read, read

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
ROOTS = Path("/etc/passwd")


def link_of_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `path` another user's link to a file of root's, also for tests that root runs."""
    path.symlink_to(ROOTS)
    if os.geteuid() == 0:
        os.chown(path, 12, 34, follow_symlinks=False)
    else:
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)


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


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"bytes")
    assert read(path, 5) == b"bytes"
    with pytest.raises(ConfigurationError, match="a: cannot be read: it has more than 4 bytes"):
        read(path, 4)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "b", 5)
    with pytest.raises(IsADirectoryError):
        read(tmp_path, 5)


@posix
def test_reading_waits_for_no_pipe_and_ends_with_an_endless_device(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    for path in (pipe, link):
        with pytest.raises(ConfigurationError, match="not a regular file"):
            open_to_read(path)


@posix
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pipe, genuine = tmp_path / "a", tmp_path / "pipe", Path.stat
    path.touch()
    os.mkfifo(pipe)

    def seen(of: Path, **given: bool) -> os.stat_result:
        found = genuine(of, **given)
        pipe.replace(path)
        return found

    monkeypatch.setattr(Path, "stat", seen)
    with pytest.raises(ConfigurationError, match="not a regular file"):
        open_to_read(path)


@posix
def test_a_link_of_this_user_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("a")
    assert read(tmp_path / "link", 5) == b"bytes"
    (tmp_path / "roots").symlink_to(ROOTS)
    assert read(tmp_path / "roots", 2**20) == ROOTS.read_bytes()


@posix
def test_a_link_of_another_user_is_followed_to_that_users_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_of_another(tmp_path / "link", monkeypatch)
    with pytest.raises(ConfigurationError, match="another user's link to a file that is not theirs"):
        read(tmp_path / "link", 2**20)
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "theirs").symlink_to("a")
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 12, 34, follow_symlinks=False)
        os.chown(tmp_path / "a", 12, 34)
    assert read(tmp_path / "theirs", 5) == b"bytes"


@posix
def test_a_link_that_is_something_else_when_it_is_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, genuine = tmp_path / "link", Path.lstat
    path.symlink_to(ROOTS)

    def changed(of: Path) -> os.stat_result:
        of.unlink()
        of.touch()
        return genuine(of)

    monkeypatch.setattr(Path, "lstat", changed)
    with pytest.raises(ConfigurationError, match="another user's link"):
        read(path, 2**20)
