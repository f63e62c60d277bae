"""`a3cd deploy`: a3cd on other hosts, over ssh."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from common.errors import ConfigurationError
from common.host.addresses import Address
from deploy.backends.hosts import MOST_SLOTS
from deploy.cli.arguments import AddressType
from deploy.install import credentials, plan, ssh
from deploy.install.layout import SYSTEM, USER, Layout
from deploy.install.software import Software, find
from deploy.install.ssh import Way
from deploy.install.step import Plan

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_SLOTS = click.IntRange(1, MOST_SLOTS)
_INSECURE = click.option("--insecure", is_flag=True, help="Without keys: on a network that you trust.")


@dataclass(frozen=True)
class Hosts:
    """Where to, and how."""

    ways: tuple[Way, ...]
    layout: Layout
    python: str
    dry_run: bool

    def take(self, make: Callable[[Way], Plan]) -> None:
        """The plan of each host, one host after the other."""
        for way in self.ways:
            (_show if self.dry_run else _carry_out)(way, make(way))


def _show(way: Way, one: Plan) -> None:
    click.echo(f"{way.target}: {one.title}: would see to it that there is")
    for step in one.steps:
        click.echo(f"  {step.what}")


def _carry_out(way: Way, one: Plan) -> None:
    due = [taken.step for taken in ssh.look(way, one) if taken.state == "due"]
    click.echo(f"{way.target}: {one.title}{'' if due else ': nothing to do'}")
    if due:
        ssh.act(way, one, due, _tell)
        if one.after:
            click.echo(f"  {one.after}")


def _tell(taken: ssh.Taken) -> None:
    if taken.state != "good":
        click.echo(f"  {taken.text.replace(chr(10), f'{chr(10)}  ') or taken.step.what}")


def _hosts_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where to; the command is called with `hosts`."""

    @wraps(command)
    def call(
        to: str,
        more: tuple[str, ...],
        system: bool,
        sudo: bool,
        python: str,
        ssh_config: Path | None,
        dry_run: bool,
        **others: Any,
    ) -> Any:
        if sudo and not system:
            raise click.UsageError("--sudo is for system units")
        ways = tuple(Way.ssh(target, config=ssh_config, python=python, sudo=sudo) for target in (to, *more))
        return command(Hosts(ways, SYSTEM if system else USER, python, dry_run), **others)

    for option in (
        click.option("--dry-run", is_flag=True, help="Print every step, connect to nothing."),
        click.option("--ssh-config", type=_FILE, help="As ssh -F takes it."),
        click.option("--python", default="python3", show_default=True, help="Python 3.11 or newer there."),
        click.option("--sudo", is_flag=True, help="Become root there by sudo, which must not ask for a password."),
        click.option("--systemd/--user", "system", default=True, help="System units (default), or the user's own."),
        click.argument("more", nargs=-1, metavar="[USER@HOST]..."),
        click.option("--to", required=True, metavar="USER@HOST...", help="Where; more hosts may follow."),
    ):
        call = option(call)
    return call


def _software_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What to install; the command is called with `software`."""

    @wraps(command)
    def call(*arguments: Any, wheel: Path | None, wheelhouse: Path | None, **others: Any) -> Any:
        with tempfile.TemporaryDirectory(prefix="a3cd-wheel-") as scratch:
            return command(*arguments, software=find(wheel, wheelhouse, Path(scratch)), **others)

    call = click.option("--wheelhouse", type=_FOLDER, help="Wheels of all it needs, for hosts without an index.")(call)
    return click.option("--wheel", type=_FILE, help="a3cd as a wheel; default: built of the source tree.")(call)


def _peer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The learner and the way in to it; the command is called with `role`, which makes a host's part."""

    @wraps(command)
    def call(
        hosts: Hosts,
        learner: Address,
        slots: int,
        modules: tuple[str, ...],
        keys: Path | None,
        invite_from: str | None,
        insecure: bool,
        **others: Any,
    ) -> Any:
        make = None
        if not learner.loopback and not insecure:
            make = _inviter(hosts, learner, keys, invite_from)

        def role(way: Way) -> plan.Peers:
            credential = make and credentials.credential_file(hosts.layout, way.target, learner, make)
            return plan.Peers(learner, slots, credential, modules, insecure)

        return command(hosts, role=role, **others)

    for option in (
        _INSECURE,
        click.option("--invite-from", metavar="USER@HOST", help="The learner's host, which makes the hosts' keys."),
        click.option("--keys", type=_FOLDER, help="The learner's key folder, where this is the learner's host."),
        click.option("--allow-module", "modules", multiple=True, help="A module the learner may have imported."),
        click.option("--slots", type=_SLOTS, default=2, show_default=True, help="Actors on each host, at most."),
        click.option("--learner", required=True, type=AddressType(), help="Its address, as the hosts reach it."),
    ):
        call = option(call)
    return call


def _inviter(hosts: Hosts, learner: Address, keys: Path | None, invite_from: str | None) -> Callable[[str], bytes]:
    if invite_from is None:
        return credentials.here(learner, keys)
    first = hosts.ways[0]
    way = Way(invite_from, (*first.words[:-1], ssh.check_target(invite_from)), sudo=first.sudo)
    return credentials.there(learner, way, hosts.layout)


@click.group()
def deploy() -> None:
    """Install a3cd on hosts over ssh, as systemd units; to be repeated as often as you like.

    `ssh USER@HOST` must work by key, without a question. HOST needs Python 3.11 or newer with venv, and systemd.
    """


@deploy.command()
@_hosts_options
@_software_options
@click.option("--config", required=True, type=_FILE, help="The run settings (TOML).")
@click.option("--name", default="run", show_default=True, help="Of the run: its unit is a3cd-learner@NAME.")
@click.option("--bind", type=AddressType(connect=False), default="tcp://0.0.0.0:5555", show_default=True)
@_INSECURE
def learner(hosts: Hosts, software: Software, config: Path, name: str, bind: Address, insecure: bool) -> None:
    """A learner of one run; its key pair is made there, and stays there."""
    from common.settings.toml import read

    read(config)  # what no learner would take is said here, not in a journal over there
    if bind.port == 0:
        raise ConfigurationError(f"{bind}: a unit needs a port that stays the same, as in tcp://0.0.0.0:5555")
    role = plan.Learner(name, config.read_bytes(), bind, insecure)
    hosts.take(lambda _: plan.learner(hosts.layout, hosts.python, software, role))


@deploy.command()
@_hosts_options
@_software_options
@_peer_options
def actors(hosts: Hosts, software: Software, role: Callable[[Way], plan.Peers]) -> None:
    """Actors, as many as --slots says on each host, started at boot."""
    hosts.take(lambda way: plan.actors(hosts.layout, hosts.python, software, role(way)))


@deploy.command()
@_hosts_options
@_software_options
@_peer_options
def launcher(hosts: Hosts, software: Software, role: Callable[[Way], plan.Peers]) -> None:
    """A launcher, which starts actors as units when the learner orders them."""
    hosts.take(lambda way: plan.launcher(hosts.layout, hosts.python, software, role(way)))


@deploy.command()
@_hosts_options
def status(hosts: Hosts) -> None:
    """Show what is installed on hosts and what it does."""
    hosts.take(lambda _: plan.status(hosts.layout))


@deploy.command()
@_hosts_options
@_software_options
def upgrade(hosts: Hosts, software: Software) -> None:
    """Install a newer a3cd; what runs is restarted, what does not is left so."""
    hosts.take(lambda _: plan.upgrade(hosts.layout, hosts.python, software))


@deploy.command()
@_hosts_options
def remove(hosts: Hosts) -> None:
    """Stop a3cd on hosts and remove it; runs, settings and keys are kept."""
    hosts.take(lambda _: plan.remove(hosts.layout))
