"""A host's way in to the learner: made when the host has none yet, by whoever holds the learner's key folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.access import ALLOWED, LEARNER_PAIR, default_folder
from common.host.security.credential import Credential, file_name
from deploy.cli import keys
from deploy.install.layout import Layout
from deploy.install.ssh import Way
from deploy.install.step import File

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


def credential_file(layout: Layout, target: str, learner: Address, make: Callable[[str], bytes]) -> File:
    """The step that puts a credential on the host `target`, unless it has one for this learner."""
    path = f"{layout.keys}/{file_name(learner)}"
    return File(path, lambda: make(key_name(target)), mode=0o600, keep=True)


def key_name(target: str) -> str:
    """How the host of USER@HOST is called in the learner's list."""
    return _UNFIT.sub("-", target.rpartition("@")[2])


def here(learner: Address, folder: Path | None) -> Callable[[str], bytes]:
    """Made in the learner's key folder on this machine. Raises ConfigurationError where there is none."""
    where = folder or default_folder()
    if not (where / LEARNER_PAIR).exists():
        raise ConfigurationError(
            f"there is no {where / LEARNER_PAIR}: name the learner's host with --invite-from USER@HOST, or run this "
            "there; --insecure does without keys, on a network that you trust"
        )

    def make(host: str) -> bytes:
        _forget(where / ALLOWED, host)
        return keys.invitation(where, host, learner).text().encode()

    return make


def _forget(path: Path, host: str) -> None:
    """A host that lost its credential gets a new key, and the old one lets nobody in any more."""
    if host in allowed.read(path).values():
        allowed.revoke(path, host)


def there(learner: Address, way: Way, layout: Layout) -> Callable[[str], bytes]:
    """Made on the learner's host. Raises UnavailableError where that cannot be done."""

    def make(host: str) -> bytes:
        a3cd, folder = (path.replace("~", '"$HOME"', 1) for path in (layout.a3cd, layout.keys))
        keys = f"{a3cd} keys --keys {folder}"
        _say(way, f"{keys} revoke {shlex.quote(host)}", needed=False)
        line = _say(way, f"{keys} invite {shlex.quote(host)} --learner {shlex.quote(str(learner))}")
        try:
            return Credential.from_invitation(line.partition("'")[2].partition("'")[0]).text().encode()
        except A3cdError as error:
            raise UnavailableError(f"{way.target}: {error}") from None

    return make


def _say(way: Way, line: str, needed: bool = True) -> str:
    """`line` to the host's shell, over standard input; its words are this program's own or quoted."""
    shell = "sudo -n sh -s" if way.sudo else "sh -s"
    done = subprocess.run([*way.words, shell], input=line, capture_output=True, text=True, check=False)
    if done.returncode and needed:
        raise UnavailableError(f"{way.target}: no invitation: {done.stderr.strip()[-1000:]}")
    return done.stdout.strip()
