from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.host.security.keys import (
    KEY_CHARACTERS,
    KeyPair,
    check_key,
    check_name,
    is_name_under,
    read_public,
    write_secret,
)
from tests.helpers.disks import lacking, small_disk

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


def test_a_pair_is_read_as_it_was_written(tmp_path: Path) -> None:
    pair = KeyPair.generate("lab7")
    pair.write(tmp_path / "made" / "lab7.key")
    assert KeyPair.read(tmp_path / "made" / "lab7.key") == pair
    assert KeyPair.from_secret("lab7", pair.secret) == pair
    assert len(pair.public) == KEY_CHARACTERS
    assert pair != KeyPair.generate("lab7")


def test_a_secret_is_never_shown() -> None:
    pair = KeyPair.generate("lab7")
    assert pair.secret not in repr(pair)
    with pytest.raises(ConfigurationError) as raised:
        check_key(pair.secret + "x", "secret")
    assert pair.secret not in str(raised.value)


@posix
def test_a_secret_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    KeyPair.generate("a").write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    for mode in (0o604, 0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match=f"open to others: chmod 600 {path}"):
            KeyPair.read(path)
    path.chmod(0o440)  # as systemd hands out credentials
    KeyPair.read(path)


def test_a_pair_in_use_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    KeyPair.generate("a").write(path)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="exists"):
        KeyPair.generate("a").write(path)
    assert path.read_bytes() == before
    write_secret(path, "other", replace=True)
    assert path.read_text() == "other"


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_full_disk_leaves_no_key_that_would_be_in_the_way(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        disk.fill()
        path = disk.path / "learner.key"
        with pytest.raises(ConfigurationError, match="cannot be written: No space left on device"):
            KeyPair.generate("learner").write(path)
        assert [entry.name for entry in disk.path.iterdir()] == ["filling"]
        disk.free()
        KeyPair.generate("learner").write(path)
        assert KeyPair.read(path).name == "learner"


@posix
def test_a_link_that_takes_the_place_of_the_partial_file_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the folder can put one there; for root it may lead anywhere."""
    other, make = tmp_path / "other", tempfile.mkstemp
    other.touch()

    def made_and_replaced(*given: Any) -> tuple[int, str]:
        descriptor, name = make(*given)
        Path(name).unlink()
        Path(name).symlink_to(other)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", made_and_replaced)
    write_secret(tmp_path / "a.key", "secret")
    assert other.read_text() == ""


def test_what_a_crash_left_beside_a_key_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".a.key.partial").touch()
    KeyPair.generate("a").write(tmp_path / "a.key")
    assert KeyPair.read(tmp_path / "a.key").name == "a"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda _: "not = [toml", "is no key file"),
        (lambda _: f"nested = {'[' * 5000}", "is no key file"),
        (lambda _: 'name = "a"', "has no secret"),
        (lambda pair: f'name = "a/b"\nsecret = "{pair.secret}"', "is no name"),
        (lambda pair: f'name = "a"\nsecret = "{pair.secret[:-1]}"', "secret is no key"),
        (lambda pair: f'name = "a"\nsecret = "{pair.secret}"\npublic = "{pair.secret}"', "does not belong"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, change: object, text: str) -> None:
    path = tmp_path / "a.key"
    path.write_text(change(KeyPair.generate("a")))  # type: ignore[operator]
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=text):
        KeyPair.read(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        KeyPair.read(tmp_path / "none.key")
    with pytest.raises(ConfigurationError, match=r"none.key' is no key \(40 characters\), and no file with one"):
        read_public(str(tmp_path / "none.key"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        KeyPair.generate("a").write(tmp_path / "file" / "a.key")


def test_a_public_key_written_out_or_in_a_file(tmp_path: Path) -> None:
    pair = KeyPair.generate("a")
    pair.write(tmp_path / "a.key")
    assert read_public(pair.public) == read_public(str(tmp_path / "a.key")) == pair.public


@pytest.mark.parametrize("key", ["", "x" * 39, "x" * 41, "~" * 40, "#" * 40, "ä" * 40])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(ConfigurationError, match="is no key"):
        check_key(key)


def test_names_under_a_key() -> None:
    assert all(is_name_under("lab7", name) for name in ("lab7", "lab7/", "lab7/a", "lab7/a/b"))
    assert not any(is_name_under("lab7", name) for name in ("", "lab", "lab70", "lab70/a", "a/lab7", "Lab7/a", "/lab7"))


@pytest.mark.parametrize("name", ["", "a/b", "a b", ".hidden", "ä", "x" * 65, "a\n"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name"):
        check_name(name)
