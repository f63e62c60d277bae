"""What a peer keeps of its learner: where it is, its public key, and the peer's own pair. As a file, or as one line."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

from zmq.utils import z85

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.keys import KeyPair, check_key, read_secret_table, write_secret

SUFFIX = ".credential"
_KEY_BYTES = 32


@dataclass(frozen=True)
class Credential:
    """One peer's way in to one learner."""

    learner: Address
    learner_key: str
    pair: KeyPair

    @classmethod
    def read(cls, path: Path) -> Credential:
        """From a file of `write`; raises ConfigurationError."""
        table = read_secret_table(path)
        missing = [key for key in ("learner", "learner_key", "name", "secret") if not isinstance(table.get(key), str)]
        if missing:
            raise ConfigurationError(
                f"{path} has no {', '.join(missing)}: `a3cd keys invite` on the learner's host gives a whole credential"
            )
        secret = check_key(table["secret"], f"{path}: secret")
        learner_key = check_key(table["learner_key"], f"{path}: learner_key")
        return cls(Address.parse(table["learner"]), learner_key, KeyPair.from_secret(table["name"], secret))

    def text(self) -> str:
        """The file's content."""
        lines = (
            "# a3cd: this host's way in to a learner. Keep it secret.",
            f'learner = "{self.learner}"',
            f'learner_key = "{self.learner_key}"',
            f'name = "{self.pair.name}"',
            f'public = "{self.pair.public}"',
            f'secret = "{self.pair.secret}"',
        )
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Readable by its owner only, in place of an older one; raises ConfigurationError."""
        write_secret(path, self.text(), replace=True)

    @property
    def file_name(self) -> str:
        """How it is called in a key folder: by the learner's address."""
        return file_name(self.learner)

    def invitation(self) -> str:
        """One line for the peer's command line: tcp://host:port#TOKEN."""
        token = z85.decode(self.learner_key) + z85.decode(self.pair.secret) + self.pair.name.encode()
        return f"{self.learner}#{base64.urlsafe_b64encode(token).decode().rstrip('=')}"

    @classmethod
    def from_invitation(cls, text: str) -> Credential:
        """What `invitation` wrote; raises ConfigurationError, which does not repeat the token."""
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
        keys = raw[:_KEY_BYTES], raw[_KEY_BYTES : 2 * _KEY_BYTES]
        learner_key, secret = (z85.encode(key).decode() for key in keys)
        return cls(address, learner_key, KeyPair.from_secret(name, secret))


def file_name(learner: Address) -> str:
    """Of the credential for a learner at this address."""
    host = learner.host.strip("[]").replace(":", "-").replace("%", "-")
    return f"{host}_{learner.port}{SUFFIX}"
