from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.host.security.allowed import WatchedList, allow, parse, read, revoke
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
    assert read(path) == {ONE: "lab1", TWO: "lab2"}
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
    assert read(path) == {ONE: "lab1"}


def test_comments_and_blank_lines(path: Path) -> None:
    assert parse(f"# who\n\n  {ONE}   lab1  \n", path) == {ONE: "lab1"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (ONE, "line 2: write a public key and a name"),
        (f"{ONE} lab 1", "line 2: write a public key and a name"),
        ("short lab1", "line 2: 'short' is no key"),
        (f"{ONE} lab/1", "is no name"),
        (f"{ONE} lab1\n{ONE} lab2", "line 3: .* stands in the list already"),
        (f"{ONE} lab1\n{TWO} lab1", "line 3: .* stands in the list already"),
    ],
)
def test_lines_that_are_wrong(path: Path, line: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(f"# allowed\n{line}", path)


def test_a_list_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be"):
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


def test_a_list_that_goes_bad_is_told_once_and_the_old_one_stands(path: Path) -> None:
    allow(path, ONE, "lab1")
    watched = WatchedList(path)
    path.write_text("nonsense")
    with pytest.raises(ConfigurationError, match="line 1"):
        watched.changed()
    assert not watched.changed()
    assert watched.names == {ONE: "lab1"}
