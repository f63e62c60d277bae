from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.host.security.allowed import Allowed, WatchedList, allow, parse, read, revoke
from common.host.security.keys import KeyPair

ONE, TWO = KeyPair.generate("one").public, KeyPair.generate("two").public


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "allowed"


def test_nobody_at_first(path: Path) -> None:
    assert read(path) == {}


def test_allowed_and_revoked(path: Path) -> None:
    assert allow(path, ONE, "lab1")
    assert not allow(path, ONE, "lab1")
    assert allow(path, TWO, "lab2")
    assert read(path) == {ONE: Allowed("lab1"), TWO: Allowed("lab2")}
    assert revoke(path, "lab1") == (ONE, "lab1")
    assert revoke(path, TWO) == (TWO, "lab2")
    assert read(path) == {}


def test_a_name_is_one_key_and_a_key_one_name(path: Path) -> None:
    allow(path, ONE, "lab1")
    with pytest.raises(ConfigurationError, match="with another key: `a3cd keys revoke lab1` first"):
        allow(path, TWO, "lab1")
    with pytest.raises(ConfigurationError, match="allowed already, as lab1"):
        allow(path, ONE, "lab2")
    with pytest.raises(ConfigurationError, match="'lab3' is not in"):
        revoke(path, "lab3")
    assert read(path) == {ONE: Allowed("lab1")}


def test_comments_and_blank_lines(path: Path) -> None:
    assert parse(f"# who\n\n  {ONE}   lab1  \n", path) == {ONE: Allowed("lab1")}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (ONE, "line 2: write a public key, a name"),
        (f"{ONE} lab 1", "line 2: '1' is no role; there are actor, launcher, observer, evaluator, relay, operator"),
        (f"{ONE} lab actor, observer", "line 2: write a public key, a name"),
        (f"{ONE} lab actor,", "line 2: '' is no role"),
        ("short lab1", "line 2: 'short' is no key"),
        (f"{ONE} lab/1", "is no name"),
        (f"{ONE} lab1\n{ONE} lab2", "line 3: .* stands in the list already"),
        (f"{ONE} lab1\n{TWO} lab1", "line 3: .* stands in the list already"),
    ],
    ids=["no name", "no role", "space", "empty role", "no key", "no such name", "key twice", "name twice"],
)
def test_lines_that_are_wrong(path: Path, line: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(f"# allowed\n{line}", path)


def test_a_list_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="cannot be"):
        allow(tmp_path / "file" / "allowed", ONE, "lab1")


def test_it_is_read_again_when_it_changed(path: Path) -> None:
    allow(path, ONE, "lab1")
    watched = WatchedList(path)
    assert not watched.changed()
    allow(path, TWO, "lab2")
    assert watched.changed()
    assert watched.names == {ONE: "lab1", TWO: "lab2"}
    os.utime(path, (1, 1))
    assert not watched.changed()  # touched, and the same
    path.unlink()
    assert watched.changed()
    assert watched.names == {}


def test_a_list_that_goes_bad_changes_nothing_until_it_is_good(path: Path) -> None:
    allow(path, ONE, "lab1")
    watched = WatchedList(path)
    path.write_text("nonsense")
    assert not watched.changed()
    assert "line 1" in watched.problem
    assert watched.problem.endswith("the list as it was stays in force")
    assert watched.names == {ONE: "lab1"}
    path.unlink()
    allow(path, TWO, "lab2")
    assert watched.changed()
    assert watched.problem == ""


def test_a_list_that_cannot_be_read_for_a_moment_is_read_again_though_it_did_not_change(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(path, ONE, "lab1")
    watched = WatchedList(path)
    allow(path, TWO, "lab2")

    def fail(*_: object, **__: object) -> str:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", fail)
        assert not watched.changed()
        assert "Input/output error" in watched.problem
    assert watched.changed()
    assert (watched.problem, len(watched.names)) == ("", 2)


def test_roles(path: Path) -> None:
    assert allow(path, ONE, "lab1", ["observer", "actor"])
    assert f"{ONE} lab1 actor,observer\n" in path.read_text()
    assert read(path) == {ONE: Allowed("lab1", ("actor", "observer"))}
    assert not allow(path, ONE, "lab1", ["actor", "observer"])
    watched = WatchedList(path)
    assert allow(path, ONE, "lab1"), "other roles"
    assert watched.changed()
    assert path.read_text().endswith(f"{ONE} lab1\n")
    assert "operator" not in read(path)[ONE].roles, "only where it is written"
    assert allow(path, ONE, "lab1", ["operator", "observer"])
    assert path.read_text().endswith(f"{ONE} lab1 observer,operator\n")
    assert read(path)[ONE].roles == ("observer", "operator")
    with pytest.raises(ConfigurationError, match="'root' is no role"):
        allow(path, TWO, "lab2", ["root"])


@pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")
def test_an_edit_keeps_mode_and_owner_whatever_the_umask(path: Path) -> None:
    allow(path, ONE, "lab1")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = path.stat()
    umask = os.umask(0o077)
    try:
        allow(path, TWO, "lab2")
        revoke(path, "lab1")
    finally:
        os.umask(umask)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")
def test_the_first_list_can_be_read_by_whoever_owns_its_folder(path: Path) -> None:
    path.parent.mkdir()
    if os.geteuid() == 0:
        os.chown(path.parent, 12, 34)
    umask = os.umask(0o077)
    try:
        allow(path, ONE, "lab1")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert (path.stat().st_uid, path.stat().st_gid) == (path.parent.stat().st_uid, path.parent.stat().st_gid)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
def test_an_edit_by_root_keeps_nobody_from_the_next(path: Path) -> None:
    path.parent.mkdir()
    os.chown(path.parent, 12, 34)
    allow(path, ONE, "lab1")
    assert {(entry.stat().st_uid, entry.stat().st_gid) for entry in path.parent.iterdir()} == {(12, 34)}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_the_lock_leads_an_edit_nowhere(path: Path, tmp_path: Path, there: bool) -> None:
    """Root edits other users' lists: the link may lead to a file of root's, or to the name of a new one."""
    other = tmp_path / "other"
    if there:
        other.write_text("precious")
    path.parent.mkdir()
    (path.parent / ".allowed.lock").symlink_to(other)
    with pytest.raises(ConfigurationError, match=r"\.allowed\.lock: cannot be used: it is a link"):
        allow(path, ONE, "lab1")
    assert (other.exists() and other.read_text()) == ("precious" if there else False)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_link_in_place_of_the_partial_list_leads_an_edit_nowhere(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    path.parent.mkdir()
    (path.parent / ".allowed.partial").symlink_to(other)
    allow(path, ONE, "lab1")
    assert (other.read_text(), read(path)) == ("precious", {ONE: Allowed("lab1")})


def test_edits_at_one_moment_undo_nothing_of_each_other(path: Path) -> None:
    keys = {f"lab{number}": KeyPair.generate("x").public for number in range(4)}

    def edit(name: str) -> None:
        for _ in range(20):
            allow(path, keys[name], name)
            revoke(path, name)
        allow(path, keys[name], name)

    with ThreadPoolExecutor(len(keys)) as editors:  # each opens the lock for itself, as processes do
        list(editors.map(edit, keys))
    assert {peer.name: key for key, peer in read(path).items()} == keys
