"""`a3cd keys`: which peers a learner lets in."""

from collections.abc import Sequence
from pathlib import Path

import click

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security import access as endpoints
from common.host.security import allowed
from common.host.security.access import ALLOWED, LEARNER_PAIR, default_folder, keys_command, with_keys
from common.host.security.allowed import ROLES, USUAL_ROLES
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair, read_public
from deploy.arguments import AddressType

_roles = click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(ROLES),
    default=USUAL_ROLES,
    help="What its holder may be; may be repeated. Default: all but relay, which stands for many actors, and operator, "
    "who may stop the run. observer alone: to look and do nothing.",
)
_KEY_AS_ARGUMENT = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""For commands that take a key as an argument: one key in 85 begins with a dash, which click would read as options, and
half of those contain an h, which it would read as -h."""

_COMMANDS = {
    "actor": "actor",
    "launcher": "launcher",
    "observer": "status",
    "evaluator": "evaluator",
    "relay": "relay",
    "operator": "keys accept",
}
"""The command to paste with an invitation: that of the first of these roles which its key has. An operator's invitation
is only stored: whoever pastes it must not end the run."""


@click.group()
@click.option("--keys", "folder", type=click.Path(path_type=Path, file_okay=False), help="The key folder.")
@click.pass_context
def keys(ctx: click.Context, folder: Path | None) -> None:
    """Make keys, allow peers, revoke them.

    Everything is in one folder: /etc/a3cd/keys for root and for a user without a home folder, else ~/.config/a3cd/keys.
    A learner that other hosts can reach has the pair `learner` there and admits the peers in the file `allowed`, which
    it reads again whenever it changes. To begin: `a3cd keys new learner`, then `a3cd keys invite HOST` for each host.
    """
    ctx.obj = folder or default_folder()


@keys.command()
@click.argument("name")
@click.pass_obj
def new(folder: Path, name: str) -> None:
    """Make the pair NAME (`learner` for the learner's own)."""
    pair = KeyPair.generate(name)
    pair.write(folder / f"{name}.key")
    click.echo(pair.public)


@keys.command()
@click.argument("name", default="learner")
@click.pass_obj
def show(folder: Path, name: str) -> None:
    """Print the public key of the pair NAME."""
    click.echo(KeyPair.read(folder / f"{name}.key").public)


@keys.command(context_settings=_KEY_AS_ARGUMENT)
@click.argument("key", metavar="FILE|KEY")
@click.option("--name", required=True, help="The peer's name from now on.")
@_roles
@click.pass_obj
def allow(folder: Path, key: str, name: str, roles: tuple[str, ...]) -> None:
    """Allow the holder of a public key; one that is allowed gets other roles."""
    added = allowed.allow(folder / ALLOWED, read_public(key), name, roles)
    click.echo(f"{name} is allowed{'' if added else ' already'}: {folder / ALLOWED}")


@keys.command(context_settings=_KEY_AS_ARGUMENT)
@click.argument("peer", metavar="NAME|KEY")
@click.pass_obj
def revoke(folder: Path, peer: str) -> None:
    """Revoke a peer's key; a running learner disconnects it within two seconds."""
    _, name = allowed.revoke(folder / ALLOWED, peer)
    click.echo(f"{name} is not allowed any more: {folder / ALLOWED}")


@keys.command("list")
@click.pass_obj
def list_peers(folder: Path) -> None:
    """List the allowed peers."""
    for key, peer in allowed.read(folder / ALLOWED).items():
        click.echo(f"{key} {peer}")


@keys.command()
@click.argument("host")
@click.option(
    "--learner", required=True, type=AddressType(), help="The learner's address as HOST reaches it (tcp://...)."
)
@_roles
@click.pass_obj
def invite(folder: Path, host: str, learner: Address, roles: tuple[str, ...]) -> None:
    """Make a key for HOST, allow it, and print the command to paste there. That line is as secret as the key in it."""
    command = next(command for role, command in _COMMANDS.items() if role in roles)
    click.echo(f"a3cd {command} '{invitation(folder, host, learner, roles).invitation()}'")


def invitation(folder: Path, host: str, learner: Address, roles: Sequence[str] = USUAL_ROLES) -> Credential:
    """Make a key for `host`, allow it, and return the credential; raises ConfigurationError."""
    if not (folder / LEARNER_PAIR).exists():
        raise ConfigurationError(f"there is no {folder / LEARNER_PAIR}: `{keys_command(folder)} new learner` makes it")
    own = KeyPair.read(folder / LEARNER_PAIR)
    pair = KeyPair.generate(host)
    allowed.allow(folder / ALLOWED, pair.public, host, roles)
    return Credential(learner, own.public, pair)


@keys.command()
@click.argument("text", metavar="INVITATION")
@click.pass_obj
def accept(folder: Path, text: str) -> None:
    """Store an invitation; from then on the learner's plain address is enough."""
    access = endpoints.accept(text, folder)
    needed = with_keys(str(access.address), folder)
    click.echo(f"stored in {access.source}: `a3cd actor`, `launcher` and `status` need only {needed} now")
