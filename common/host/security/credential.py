"""A peer's credential: the learner's address and public key, and the peer's key pair. A file, or one line of text."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w
from zmq.utils import z85

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.keys import KeyPair, check_key, read_secret_table, write_secret

_KEY_BYTES = 32


@dataclass(frozen=True)
class Credential:
    """What one peer needs to connect to one learner."""

    learner: Address
    learner_key: str
    pair: KeyPair

    @classmethod
    def read(cls, path: Path) -> Credential:
        """Read a credential from a file; raises ConfigurationError."""
        table = read_secret_table(path)
        missing = [key for key in ("learner", "learner_key", "name", "secret") if not isinstance(table.get(key), str)]
        if missing:
            raise ConfigurationError(
                f"{path} has no {', '.join(missing)}: `a3cd keys invite` on the learner's host gives a whole credential"
            )
        secret, learner_key = (check_key(table[key], f"{path}: {key}") for key in ("secret", "learner_key"))
        return cls(Address.parse(table["learner"]), learner_key, KeyPair.from_secret(table["name"], secret))

    def text(self) -> str:
        """Return the content of the credential's file."""
        table = {"learner": str(self.learner), "learner_key": self.learner_key, **asdict(self.pair)}
        return "# a3cd: this host's credential for a learner. Keep it secret.\n" + tomli_w.dumps(table)

    def write(self, path: Path) -> None:
        """Write a file that only its owner can read, replacing an older one; raises ConfigurationError."""
        write_secret(path, self.text(), replace=True)

    def invitation(self) -> str:
        """Return the credential as one line for the peer's command line: tcp://host:port#TOKEN."""
        token = z85.decode(self.learner_key) + z85.decode(self.pair.secret) + self.pair.name.encode()
        return f"{self.learner}#{base64.urlsafe_b64encode(token).decode().rstrip('=')}"

    @classmethod
    def from_invitation(cls, text: str) -> Credential:
        """Read a credential from an `invitation`; raises ConfigurationError, whose text does not contain the token."""
        where, _, token = text.strip().partition("#")
        address = Address.parse(where)
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            name = raw[2 * _KEY_BYTES :].decode("ascii")
        except (binascii.Error, ValueError):
            raw, name = b"", ""
        if not name:
            raise ConfigurationError(
                f"the invitation to {address} is not whole: copy the line of `a3cd keys invite` from the first "
                "character to the last, in quotes"
            )
        learner_key, secret = z85.encode(raw[:_KEY_BYTES]), z85.encode(raw[_KEY_BYTES : 2 * _KEY_BYTES])
        return cls(address, learner_key.decode(), KeyPair.from_secret(name, secret.decode()))


def file_name(learner: Address) -> str:
    """Return the name, in a key folder, of the credential for a learner at this address."""
    host = learner.host.strip("[]").replace(":", "-").replace("%", "-")
    return f"{host}_{learner.port}.credential"
