"""CURVE key pairs, their files and their names. A key is 40 characters of Z85, as in ZeroMQ."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import tempfile
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
import zmq
from zmq.utils import z85

from common.errors import ConfigurationError
from common.host.atomic_file import sync_folder, write_to_disk

KEY_CHARACTERS = 40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class KeyPair:
    """The key pair of one learner or peer; `repr` hides the secret."""

    name: str
    public: str
    secret: str = field(repr=False)

    @classmethod
    def generate(cls, name: str) -> KeyPair:
        """Return a new pair; raises ConfigurationError for an invalid name."""
        public, secret = zmq.curve_keypair()
        return cls(check_name(name), public.decode(), secret.decode())

    @classmethod
    def from_secret(cls, name: str, secret: str) -> KeyPair:
        return cls(check_name(name), zmq.curve_public(secret.encode()).decode(), secret)

    @classmethod
    def read(cls, path: Path) -> KeyPair:
        """Read a pair from a file; raises ConfigurationError, also if the file is open to others."""
        table = read_secret_table(path)
        pair = cls.from_secret(_text(table, "name", path), check_key(_text(table, "secret", path), f"{path}: secret"))
        if table.get("public", pair.public) != pair.public:
            raise ConfigurationError(f"{path}: public does not belong to secret: make a new pair with `a3cd keys new`")
        return pair

    def write(self, path: Path) -> None:
        """Write a new file that only its owner can read; raises ConfigurationError, also if the file exists."""
        write_secret(path, "# a3cd key pair: keep it secret\n" + tomli_w.dumps(asdict(self)))


def check_key(key: str, what: str = "key") -> str:
    """Return `key` if it is valid; raises ConfigurationError, whose text does not contain the key: it may be secret."""
    try:
        if len(key) == KEY_CHARACTERS and len(z85.decode(key.encode("ascii"))) == 32:
            return key
    except (ValueError, KeyError, struct.error):
        pass
    raise ConfigurationError(f"{what} is no key: {KEY_CHARACTERS} characters as `a3cd keys show` prints them")


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a key; raises ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name for a key: 1 to 64 letters, digits, dots, dashes, underlines")
    return name


def is_name_under(key: str, name: str) -> bool:
    """Return whether a peer with the key called `key` may have this name: KEY or KEY/..."""
    return name == key or name.startswith(f"{key}/")


def read_public(given: str) -> str:
    """Return a public key: `given` itself, or that in the key file of this name; raises ConfigurationError."""
    path = Path(given)
    if len(given) == KEY_CHARACTERS and not path.exists():
        return check_key(given)
    if not path.exists():
        raise ConfigurationError(f"{given!r} is no key ({KEY_CHARACTERS} characters), and no file with one")
    table = _parse(path)
    return check_key(_text(table, "public", path), f"{path}: public")


def read_secret_table(path: Path) -> dict[str, Any]:
    """Read a TOML file; raises ConfigurationError, also if others can use it or its group can write it."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(f"{path} is open to others: chmod 600 {path}")
    return _parse(path)


def write_secret(path: Path, text: str, *, replace: bool = False) -> None:
    """Write a file with mode 0600 beside `path`, then move it there, so that it is never half written.

    Raises ConfigurationError, also if `path` exists already and `replace` is False.
    """
    partial: Path | None = None
    try:
        if path.exists() and not replace:
            raise ConfigurationError(f"{path} exists: remove it first, if it is not needed any more")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A name of its own: several actors of a host may be given one invitation at the same moment.
        descriptor, name = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
        partial = Path(name)
        with os.fdopen(descriptor, "wb") as file:  # by its name, it could be another user's link by now
            write_to_disk(file, text.encode())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        if partial is not None:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):  # no UTF-8, no TOML, or nested too deep
        raise ConfigurationError(f"{path} is no key file: `a3cd keys new` makes one") from None


def _text(table: dict[str, Any], key: str, path: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise ConfigurationError(f"{path} has no {key}: `a3cd keys new` makes a whole key file")
    return value
