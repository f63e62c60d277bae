"""Names of keys, and of the peers that use them."""

from __future__ import annotations

import re

from common.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def check_name(name: str) -> str:
    """Return a valid name of a key; raises ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name for a key: 1 to 64 letters, digits, dots, dashes, underlines")
    return name


def is_name_under(key: str, name: str) -> bool:
    """Whether a peer with the key called `key` may have this name: KEY or KEY/..."""
    return name == key or name.startswith(f"{key}/")
