"""The learner's list of allowed peers: one line `PUBLICKEY name [roles]` each, like ssh's authorized_keys."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host import file_lock, plain_file
from common.host.atomic_file import give_owner, replace_file
from common.host.security.keys import check_key, check_name

USUAL_ROLES = ("actor", "launcher", "observer", "evaluator")
"""Roles of a key for which none are written. An observer asks for the status and does nothing else; an evaluator asks
for weights and reports how well they play."""
ROLES = (*USUAL_ROLES, "relay", "operator")
"""All roles. A key has the last two only if they are written: a relay stands for many actors that the learner does not
see; an operator ends the run, saves it, and sets the number of its actors."""
_HEADER = (
    "# Peers that may speak to the learner: PUBLICKEY name [roles]. Read again whenever it changes.\n"
    f"# Roles: some of {','.join(ROLES)}, with commas between; where none is written, all but relay and operator.\n"
)


@dataclass(frozen=True)
class Allowed:
    """The holder of one key."""

    name: str
    roles: tuple[str, ...] = USUAL_ROLES
    """The roles of the key, in the order of ROLES."""

    def __str__(self) -> str:
        return self.name if self.roles == USUAL_ROLES else f"{self.name} {','.join(self.roles)}"


def parse(text: str, path: Path) -> dict[str, Allowed]:
    """Return the peers by public key; raises ConfigurationError with the number of the wrong line."""
    peers: dict[str, Allowed] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):  # no key begins with #: the first of five Z85 digits is below 83
            continue
        where = f"{path}, line {number}"
        if len(words) not in (2, 3):
            raise ConfigurationError(
                f"{where}: write a public key, a name, and roles if not the usual ones: KEY NAME actor,observer"
            )
        key, name = check_key(words[0], f"{where}: {words[0]!r}"), check_name(words[1])
        if key in peers or any(name == other.name for other in peers.values()):
            raise ConfigurationError(f"{where}: the key or the name {name!r} stands in the list already")
        peers[key] = Allowed(name, check_roles(words[2].split(","), where) if len(words) == 3 else USUAL_ROLES)
    return peers


def check_roles(given: Sequence[str], where: str = "roles") -> tuple[str, ...]:
    """Return the roles in the order of ROLES; raises ConfigurationError for an unknown one."""
    unknown = [role for role in given if role not in ROLES]
    if unknown:
        raise ConfigurationError(f"{where}: {unknown[0]!r} is no role; there are {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in given)


def read(path: Path) -> dict[str, Allowed]:
    """Return the peers by public key, none if there is no file.

    Raises ConfigurationError for a list that is wrong, UnavailableError for one that the disk cannot read.
    """
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    except OSError as error:
        raise UnavailableError(f"{path}: cannot be read: {error.strerror}") from None


def allow(path: Path, key: str, name: str, roles: Sequence[str] = USUAL_ROLES) -> bool:
    """Add or change a peer; return whether the list changed. Raises ConfigurationError for a name with another key,
    or a key with another name."""
    peer = Allowed(check_name(name), check_roles(roles))
    with _editing(path) as peers:
        known = peers.get(check_key(key))
        if known is not None and known.name != name:
            raise ConfigurationError(
                f"this key is allowed already, as {known.name}: `a3cd keys revoke {known.name}` first"
            )
        if known is None and any(name == other.name for other in peers.values()):
            raise ConfigurationError(f"{name} is allowed already, with another key: `a3cd keys revoke {name}` first")
        if known == peer:
            return False
        _write(path, {**peers, key: peer})
        return True


def revoke(path: Path, given: str) -> tuple[str, str]:
    """Remove a peer by its name or key; returns (key, name). Raises ConfigurationError if it is not in the list."""
    with _editing(path) as peers:
        found = [(key, peer.name) for key, peer in peers.items() if given in (key, peer.name)]
        if not found:
            raise ConfigurationError(f"{given!r} is not in {path}: `a3cd keys list` shows who is")
        _write(path, {key: peer for key, peer in peers.items() if key != found[0][0]})
        return found[0]


@contextlib.contextmanager
def _editing(path: Path) -> Iterator[dict[str, Allowed]]:
    """Yield the current list, locked against other edits: an edit must not bring back what another one has removed.

    A file beside the list is locked, since an edit replaces the list's own file. Root edits other users' lists, so a
    link in place of that file is not followed.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.lock")
        lock, new = plain_file.open_or_create(beside)
        with lock:
            if new:
                give_owner(lock, path)  # root may be the first to edit another user's list
            file_lock.lock(lock, wait=True)  # on Windows two edits at one moment can lose one
            yield read(path)
    except OSError as error:
        raise UnavailableError(f"{path}: cannot be changed: {error.strerror}") from None


def _write(path: Path, peers: Mapping[str, Allowed]) -> None:
    text = _HEADER + "".join(f"{key} {peer}\n" for key, peer in peers.items())
    replace_file(path, text.encode(), keep_access=True)


class WatchedList:
    """The list, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        """Raises as `read`."""
        self.path = path
        self.problem = ""
        """Why a changed list is not in force; empty: it is."""
        self._seen = self._look()
        self.peers = read(path)

    def changed(self) -> bool:
        """Read the file if it has changed, or could not be used before; return whether `peers` changed.

        A list that is wrong or cannot be read changes nothing; `problem` then says why.
        """
        seen = self._look()
        if seen == self._seen and not self.problem:
            return False
        self._seen = seen
        before = self.peers
        try:
            self.peers, self.problem = read(self.path), ""
        except A3cdError as error:
            self.problem = f"{error}; the list as it was stays in force"
        return before != self.peers

    @property
    def names(self) -> dict[str, str]:
        """The names of the peers, by public key."""
        return {key: peer.name for key, peer in self.peers.items()}

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
