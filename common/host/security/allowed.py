"""The learner's list of allowed peers: one line `PUBLICKEY name` each, like ssh's authorized_keys."""

from collections.abc import Mapping
from pathlib import Path

from common.errors import ConfigurationError
from common.host.atomic_file import replace_file
from common.host.security.keys import check_key, check_name

_HEADER = "# Peers that may speak to the learner: PUBLICKEY name. Read again whenever it changes.\n"


def parse(text: str, path: Path) -> dict[str, str]:
    """Names by public key; raises ConfigurationError with the number of the wrong line."""
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):  # no key begins with #: the first of five Z85 digits is below 83
            continue
        where = f"{path}, line {number}"
        if len(words) != 2:
            raise ConfigurationError(f"{where}: write a public key and a name, with a space between")
        key, name = check_key(words[0], f"{where}: {words[0]!r}"), check_name(words[1])
        if key in names or name in names.values():
            raise ConfigurationError(f"{where}: the key or the name {name!r} stands in the list already")
        names[key] = name
    return names


def read(path: Path) -> dict[str, str]:
    """Names by public key, empty if there is no file; raises ConfigurationError."""
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None


def allow(path: Path, key: str, name: str) -> bool:
    """Add a peer; False: it was in the list. Raises ConfigurationError for a name that has another key."""
    names = read(path)
    if names.get(key) == check_name(name):
        return False
    if key in names:
        raise ConfigurationError(f"this key is allowed already, as {names[key]}: `a3cd keys revoke {names[key]}` first")
    if name in names.values():
        raise ConfigurationError(f"{name} is allowed already, with another key: `a3cd keys revoke {name}` first")
    _write(path, {**names, check_key(key): name})
    return True


def revoke(path: Path, given: str) -> tuple[str, str]:
    """Remove a peer by its name or key; returns (key, name). Raises ConfigurationError if it is not in the list."""
    names = read(path)
    found = [(key, name) for key, name in names.items() if given in (key, name)]
    if not found:
        raise ConfigurationError(f"{given!r} is not in {path}: `a3cd keys list` shows who is")
    _write(path, {key: name for key, name in names.items() if key != found[0][0]})
    return found[0]


def _write(path: Path, names: Mapping[str, str]) -> None:
    text = _HEADER + "".join(f"{key} {name}\n" for key, name in names.items())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


class WatchedList:
    """The list, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._look()
        self.names = read(path)

    def changed(self) -> bool:
        """Read a changed file; whether `names` changed. Raises ConfigurationError once; `names` is then unchanged."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        before, self.names = self.names, read(self.path)
        return before != self.names

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
