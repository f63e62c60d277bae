"""`a3cd deploy`: a3cd on other hosts, over ssh."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import click

from common.errors import A3cdError, ConfigurationError
from common.host.addresses import Address
from common.host.security.allowed import USUAL_ROLES
from deploy.arguments import AddressType
from deploy.backends.hosts import MOST_SLOTS
from deploy.install import credentials, roles
from deploy.install.payload import PYTHON, SYSTEM, USER, Layout, Payload
from deploy.install.software import find
from deploy.install.target import SshTarget

_log = logging.getLogger(__name__)
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_INSECURE = click.Option(["--insecure"], is_flag=True, help="Without keys: on a network that you trust.")
_HOSTS: list[click.Parameter] = [
    click.Option(["--to"], required=True, multiple=True, metavar="USER@HOST...", help="Where; more hosts may follow."),
    click.Argument(["more"], nargs=-1, metavar="[USER@HOST]..."),
    click.Option(["--systemd/--user", "system"], default=True, help="System units (default), or the user's own."),
    click.Option(["--sudo"], is_flag=True, help="Become root there by sudo, which must not ask for a password."),
    click.Option(
        ["--python"],
        default=PYTHON,
        show_default=True,
        help="Python 3.11 or newer there; another than what a3cd has there takes its place.",
    ),
    click.Option(["--ssh-config"], type=_FILE, help="As ssh -F takes it."),
    click.Option(["--dry-run"], is_flag=True, help="Print what would change, and change nothing."),
]
_SOFTWARE: list[click.Parameter] = [
    *_HOSTS,
    click.Option(["--wheel"], type=_FILE, help="a3cd as a wheel; default: built of the source tree."),
    click.Option(["--wheelhouse"], type=_FOLDER, help="Wheels of all it needs, for hosts without an index."),
    click.Option(["--extras"], default="", help="Of a3cd, as in flappy,atari, besides what the run needs."),
    click.Option(["--pip", "pip_options"], multiple=True, metavar="OPTION", help="For pip there; may be repeated."),
]
_LEARNER: list[click.Parameter] = [
    *_SOFTWARE,
    click.Option(["--config"], required=True, type=_FILE, help="The run settings (TOML)."),
    click.Option(["--name"], default="run", show_default=True, help="Of the run: its unit is a3cd-learner@NAME."),
    click.Option(["--bind"], type=AddressType(connect=False), default="tcp://0.0.0.0:5555", show_default=True),
    _INSECURE,
]
_LEARNER_AT = click.Option(["--learner"], required=True, type=AddressType(), help="Its address, as the hosts reach it.")
_ACCESS: list[click.Parameter] = [
    click.Option(["--keys"], type=_FOLDER, help="The learner's key folder, where this is the learner's host."),
    click.Option(["--invite-from"], metavar="USER@HOST", help="The learner's host, which makes the hosts' keys."),
    _INSECURE,
]
_PEERS: list[click.Parameter] = [
    *_SOFTWARE,
    _LEARNER_AT,
    click.Option(
        ["--slots"], type=click.IntRange(1, MOST_SLOTS), default=2, show_default=True,
        help="Actors on each host, at most.",
    ),
    click.Option(["--allow-module", "modules"], multiple=True, help="A module the learner may have imported."),
    *_ACCESS,
]  # fmt: skip
_RELAY: list[click.Parameter] = [
    *_SOFTWARE,
    _LEARNER_AT,
    click.Option(["--bind"], type=AddressType(connect=False), default="tcp://0.0.0.0:5555", show_default=True),
    click.Option(["--mbit"], type=click.FloatRange(0, min_open=True), help="As `a3cd relay` has it."),
    *_ACCESS,
]


def _target(text: str, system: bool, sudo: bool, python: str, ssh_config: Path | None, **_: Any) -> SshTarget:
    if sudo and not system:
        raise click.UsageError("--sudo is for system units")
    return SshTarget.parse(text, ssh_config, python, sudo)


def _layout(hosts: dict[str, Any]) -> Layout:
    return SYSTEM if hosts["system"] else USER


def _wheels(hosts: dict[str, Any]) -> tuple[Path, ...]:
    """Takes --wheel and --wheelhouse out of `hosts`; returns the wheels. One that is built here lasts until the end of
    the command."""
    scratch = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="a3cd-wheel-"))
    return find(hosts.pop("wheel"), hosts.pop("wheelhouse"), Path(scratch))


def _extras(text: str) -> set[str]:
    """The extras in the text of --extras. Raises ConfigurationError for an extra that a3cd does not have."""
    known = metadata("a3cd").get_all("Provides-Extra") or []
    named = {one.strip() for one in text.split(",") if one.strip()}
    for one in sorted(named - set(known)):
        raise ConfigurationError(f"--extras {one}: a3cd has {', '.join(sorted(known))}")
    return named


def _apply(hosts: dict[str, Any], make: Callable[[SshTarget], Payload]) -> None:
    """Brings one host after the other to the state of its payload.

    The first failure ends it; the verb `status` looks at all hosts and then raises the last failure.
    """
    failure: A3cdError | None = None
    software = {"extras": _extras(hosts.get("extras", "")), "pip": hosts.get("pip_options", ())}
    for target in [_target(text, **hosts) for text in (*hosts["to"], *hosts["more"])]:
        one = make(target)
        one = replace(one, pip=software["pip"], extras={*one.extras, *software["extras"]})
        try:
            _bring(target, one, hosts["dry_run"])
        except A3cdError as error:
            if one.verb != "status":
                raise
            if failure is not None:
                _log.error("%s", failure)
            failure = error
    if failure is not None:
        raise failure


def _bring(target: SshTarget, one: Payload, dry_run: bool) -> None:
    due = list(target.apply(one))
    look_only = dry_run or not due or one.verb == "status"
    outcome = "" if one.verb == "status" or not look_only else ": would change" if due else ": nothing to do"
    click.echo(f"{target.host.destination}: {one.verb}{outcome}")
    for line in due if look_only else target.apply(one, due):
        click.echo(f"  {line}")


def _require_fixed_port(bind: Address) -> None:
    if bind.port == 0:
        raise ConfigurationError(f"{bind}: a unit needs a port that stays the same, as in tcp://0.0.0.0:5555")


@click.group()
def deploy() -> None:
    """Install a3cd on hosts over ssh, as systemd units; to be repeated as often as you like.

    `ssh USER@HOST` must work by key, without a question. HOST needs Python 3.11 or newer with venv, and systemd.
    """


@deploy.command(params=_LEARNER)
def learner(config: Path, name: str, bind: Address, insecure: bool, **hosts: Any) -> None:
    """A learner of one run; its key pair is made there, and stays there."""
    from common.rl.environments.names import extra
    from common.settings.toml import content_of, parse

    content = content_of(config)  # once: it may be a pipe
    settings = parse(content, str(config))  # a mistake in it is reported here, not in the host's journal
    _require_fixed_port(bind)
    one = roles.learner(_layout(hosts), _wheels(hosts), name, content, bind, insecure)
    needed = {"torch", extra(settings.environment)} - {""}
    _apply(hosts, lambda _: replace(one, extras=needed))


def _invite(
    learner: Address,
    keys: Path | None,
    invite_from: str | None,
    insecure: bool,
    may_be: Sequence[str],
    hosts: dict[str, Any],
) -> credentials.Make | None:
    """Returns what makes the hosts' credentials; None: the learner is reached without keys. `may_be`: their roles."""
    if keys is not None and invite_from is not None:
        raise click.UsageError("--keys is for the learner's host, --invite-from for all others: give one of them")
    if learner.loopback or insecure:
        if keys is not None or invite_from is not None:
            why = "--insecure is without keys" if insecure else f"a learner at {learner} is reached without keys"
            raise click.UsageError(
                f"{why}: leave out --keys and --invite-from, or name the address that other hosts use"
            )
        return None
    if invite_from is None:
        return credentials.here(learner, keys, may_be)
    return credentials.there(learner, _target(invite_from, **hosts), _layout(hosts), may_be)


def _key_name(target: SshTarget, layout: Layout) -> str:
    """Returns the name of the host's key; each user of a host has one of their own."""
    user, _, _ = target.host.destination.rpartition("@")
    return f"{target.host.name}-{user}" if layout.user and user else target.host.name


def _deploy_peers(
    verb: str,
    learner: Address,
    slots: int,
    modules: tuple[str, ...],
    keys: Path | None,
    invite_from: str | None,
    insecure: bool,
    **hosts: Any,
) -> None:
    layout, wheels = _layout(hosts), _wheels(hosts)
    invite = _invite(learner, keys, invite_from, insecure, USUAL_ROLES, hosts)

    def make(target: SshTarget) -> Payload:
        own = None if invite is None else lambda: invite(_key_name(target, layout))
        return roles.peers(verb, layout, wheels, learner, slots, modules=modules, insecure=insecure, credential=own)

    _apply(hosts, make)


@deploy.command(params=_PEERS)
def actors(**given: Any) -> None:
    """Actors, as many as --slots says on each host, started at boot."""
    _deploy_peers("actors", **given)


@deploy.command(params=_PEERS)
def launcher(**given: Any) -> None:
    """A launcher, which starts actors as units when the learner orders them."""
    _deploy_peers("launcher", **given)


@deploy.command(params=_RELAY)
def relay(
    learner: Address,
    bind: Address,
    mbit: float | None,
    keys: Path | None,
    invite_from: str | None,
    insecure: bool,
    **hosts: Any,
) -> None:
    """A relay between the learner and the actors of a site, to which it is a learner with keys of its own."""
    _require_fixed_port(bind)
    layout, wheels = _layout(hosts), _wheels(hosts)
    invite = _invite(learner, keys, invite_from, insecure, ("relay",), hosts)

    def make(target: SshTarget) -> Payload:
        own = None if invite is None else lambda: invite(f"{_key_name(target, layout)}-relay")
        return roles.relay(layout, wheels, learner, bind, mbit=mbit or 0.0, insecure=insecure, credential=own)

    _apply(hosts, make)


@deploy.command(params=_HOSTS)
def status(**hosts: Any) -> None:
    """Show what is installed on hosts and what it does."""
    _apply(hosts, lambda _: Payload("status", _layout(hosts)))


@deploy.command(params=_SOFTWARE)
def upgrade(**hosts: Any) -> None:
    """Install a newer a3cd; what runs is restarted, what does not is left so."""
    one = roles.upgrade(_layout(hosts), _wheels(hosts))
    _apply(hosts, lambda _: one)


@deploy.command(params=_HOSTS)
def remove(**hosts: Any) -> None:
    """Stop a3cd on hosts and remove it; runs, settings and keys are kept."""
    _apply(hosts, lambda _: Payload("remove", _layout(hosts)))
