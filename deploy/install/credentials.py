"""A host's credential for the learner: made when the host has none yet, where the learner's key folder is."""

import logging
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.access import ALLOWED, LEARNER_PAIR, default_folder
from common.host.security.allowed import USUAL_ROLES
from common.host.security.credential import Credential
from deploy import keys
from deploy.install.payload import SYSTEM, USER, Layout, shell_word
from deploy.install.target import SshTarget

_REVOKED = "the key that %s had before is revoked: whoever else used it needs an invitation of their own"
_log = logging.getLogger(__name__)
Make = Callable[[str], bytes]
"""Makes a credential for the host of that name in the learner's list, and revokes the one that it had."""


def here(learner: Address, folder: Path | None, roles: Sequence[str] = USUAL_ROLES) -> Make:
    """Makes credentials in the learner's key folder on this machine. Raises ConfigurationError where there is none."""
    where = folder or default_folder()
    if not (where / LEARNER_PAIR).exists():
        raise ConfigurationError(
            f"there is no {where / LEARNER_PAIR}: name the learner's host with --invite-from USER@HOST, or run this "
            "there; --insecure does without keys, on a network that you trust"
        )

    def make(host: str) -> bytes:
        if any(host == peer.name for peer in allowed.read(where / ALLOWED).values()):
            allowed.revoke(where / ALLOWED, host)
            _log.warning(_REVOKED, host)
        return keys.invitation(where, host, learner, roles).text().encode()

    return make


def there(learner: Address, target: SshTarget, layout: Layout, roles: Sequence[str] = USUAL_ROLES) -> Make:
    """Makes credentials on the learner's host, by ssh; raises UnavailableError where that cannot be done."""
    asked = "" if roles == USUAL_ROLES else "".join(f" --role {role}" for role in roles)
    # Where the learner runs, a3cd may be installed for the system while it is a user's on the new host.
    where = "".join(
        f"[ -x {shell_word(one.a3cd)} ] && a3cd={shell_word(one.a3cd)} keys={shell_word(one.keys)}\n"
        for one in (SYSTEM, USER, layout)
    )

    def make(host: str) -> bytes:
        name = shlex.quote(host)
        script = (
            f"a3cd={shell_word(layout.a3cd)} keys={shell_word(layout.keys)}\n{where}"
            f'"$a3cd" keys --keys "$keys" revoke {name} >/dev/null 2>&1 && echo revoked\n'
            f'exec "$a3cd" keys --keys "$keys" invite {name} --learner {shlex.quote(str(learner))}{asked}\n'
        )
        try:
            said = "\n".join(target.run("sh -s", lambda file: file.write(script.encode())))
        except UnavailableError as error:
            raise UnavailableError(f"no invitation from {error}") from None
        if said.startswith("revoked\n"):
            _log.warning(_REVOKED, host)
        try:
            return Credential.from_invitation(said.partition("'")[2].partition("'")[0]).text().encode()
        except A3cdError as error:
            raise UnavailableError(f"no invitation from {target.host.destination}: {error}") from None

    return make
