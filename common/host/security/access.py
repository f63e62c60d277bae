"""How a peer connects to its learner: the address and the credential."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.credential import Credential, file_name
from common.host.security.keys import KeyPair, is_name_under

LEARNER_PAIR = "learner.key"
ALLOWED = "allowed"
SYSTEM_FOLDER = Path("/etc/a3cd/keys")


@dataclass(frozen=True)
class LearnerEndpoint:
    """A learner's address, and this peer's credential for it (None: the learner has no keys)."""

    address: Address
    credential: Credential | None = None
    source: Path | None = None
    """The credential's file, for child processes."""
    insecure: bool = False
    folder: Path | None = None
    """The key folder, if one was named: a child process looks for its credential there too."""

    def arguments(self) -> list[str]:
        """The same endpoint as arguments of a child's command line, without secrets.

        A credential without a file is the learner's own pair, which the child finds in the key folder as well.
        """
        words = [str(self.address)]
        if self.source is not None:
            words += ["--credential", str(self.source)]
        elif self.folder is not None:
            words += ["--keys", str(self.folder)]
        return [*words, "--insecure"] if self.insecure else words

    def name(self, wanted: str) -> str:
        """Return `wanted`, prefixed with the name of the key if needed; the learner refuses other names."""
        key = self.credential.pair.name if self.credential else ""
        return wanted if not key or is_name_under(key, wanted) else f"{key}/{wanted}"


def default_folder() -> Path:
    """/etc/a3cd/keys for root and for a user without a home folder, else ~/.config/a3cd/keys."""
    if os.name == "posix" and os.geteuid() == 0:
        return SYSTEM_FOLDER
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "a3cd" / "keys"
    except RuntimeError:  # a user of a container, perhaps, who is in no list of users
        return SYSTEM_FOLDER


def with_keys(words: str, folder: Path) -> str:
    """Return a command's words with the option for this key folder, as it can be typed."""
    return words if folder == default_folder() else f"{words} --keys {shlex.quote(str(folder))}"


def keys_command(folder: Path) -> str:
    """`a3cd keys` for this key folder, as it can be typed."""
    return with_keys("a3cd keys", folder)


def find(
    address: Address, *, folder: Path | None = None, credential: Path | None = None, insecure: bool = False
) -> LearnerEndpoint:
    """The endpoint for `address`, with the `credential` given, else the one for that address in the key folder.

    If `folder` is given and has the learner's own key pair, that pair serves as credential. Without any credential
    the address must be loopback, or `insecure` set; raises ConfigurationError, also for `insecure` beside keys.
    """
    if insecure and (credential is not None or folder is not None):
        raise ConfigurationError("--insecure is without keys: leave out --keys and --credential, or --insecure")
    named = None if folder is None else folder.absolute()
    if credential is not None:
        return LearnerEndpoint(address, Credential.read(credential), credential.absolute(), folder=named)
    if insecure:
        return LearnerEndpoint(address, insecure=True)
    kept = (folder or default_folder()) / file_name(address)
    if os.path.exists(kept):  # noqa: PTH110  unlike Path's, False in a home folder that this user may not enter
        return LearnerEndpoint(address, Credential.read(kept), kept.absolute(), folder=named)
    if folder is not None and (folder / LEARNER_PAIR).exists():
        pair = KeyPair.read(folder / LEARNER_PAIR)
        return LearnerEndpoint(address, Credential(address, pair.public, pair), folder=named)
    if address.loopback:
        return LearnerEndpoint(address, folder=named)
    raise ConfigurationError(
        f"no credential for the learner at {address} (looked for {kept}): on its host, "
        f"`a3cd keys invite NAME --learner {address}` prints the line to start this peer with; "
        "--insecure does without keys, on a network that you trust"
    )


def accept(text: str, folder: Path | None = None) -> LearnerEndpoint:
    """Save the credential of an invitation in the key folder, so that the address alone is enough later."""
    credential = Credential.from_invitation(text)
    path = (folder or default_folder()) / file_name(credential.learner)
    credential.write(path)
    return LearnerEndpoint(
        credential.learner, credential, path.absolute(), folder=None if folder is None else folder.absolute()
    )
