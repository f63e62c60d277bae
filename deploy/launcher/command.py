"""The command `a3cd launcher`: makes the backends from its options, and runs the launcher."""

import os
import platform
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from common.errors import ConfigurationError
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.arguments import finish, learner_argument, lifeline_option, wait_option
from deploy.backends.base import Backend, Place, actor_name, group_name
from deploy.backends.command import CommandBackend
from deploy.backends.hosts import MOST_SLOTS, share_out
from deploy.backends.process import ProcessBackend
from deploy.backends.slurm import SlurmBackend, script
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from deploy.children import a3cd
from deploy.launcher.options import OPTIONS, WAYS, check_ways
from deploy.ssh import ssh_command


@click.command()
@learner_argument
@click.option(
    "--slots", type=click.IntRange(1, MOST_SLOTS), help="Most actors to run; with ssh: of all hosts without :SLOTS."
)
@click.option("--start-with", type=click.Choice(WAYS), default="process", show_default=True)
@click.option("--name", default="", help="How this launcher is called in status; default: host (and process id).")
@wait_option
@lifeline_option
@click.pass_context
def launcher(
    ctx: click.Context,
    /,
    access: LearnerEndpoint,
    slots: int | None,
    start_with: str,
    name: str,
    wait: float,
    **options: Any,
) -> None:
    """Start and stop actors, as many as the learner at LEARNER orders, in the way that --start-with says.

    process: children of this launcher, which end with it. systemd: units a3cd-actor@0, @1, ... ssh: units or children
    on other hosts. slurm: tasks of job arrays. command: any program that is told the number. All but the first outlive
    a launcher that is restarted, and are found again; Ctrl-C ends them too.
    """
    from deploy.launcher.shell import run

    logs.setup("launcher")
    check_ways(ctx, start_with)
    name = access.name(name or default_name(start_with))
    try:
        found = places(start_with, access, name, slots, options)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    finish(run(access, found, name=name, prestart=options["prestart"], wait=wait))


launcher.params += OPTIONS


def default_name(start_with: str) -> str:
    """Actors that outlive the launcher are found by its name, so it must be the same tomorrow."""
    host = platform.node() or "launcher"
    return f"{host}-{os.getpid()}" if start_with == "process" else host


def places(
    start_with: str, access: LearnerEndpoint, name: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    """Where the actors of the launcher `name` may run; `given`: the values of OPTIONS.

    Raises ConfigurationError for an option that is missing.
    """
    learner = str(access.address)
    modules = [word for module in given["allow_module"] for word in ("--allow-module", module)]
    if start_with == "ssh":
        # No credential: each host finds its own by the learner's address.
        return _hosts(learner, [*(["--insecure"] if access.insecure else []), *modules], name, slots, given)
    if slots is None:
        raise ConfigurationError("--slots N says how many actors may run")
    # Nice: actors give way to whoever uses the host, and to a learner on it.
    words = [*access.arguments(), "--nice", "10", *modules]
    backend: Backend
    match start_with:
        case "process":
            backend = ProcessBackend(partial(_actor, words, name), partial(actor_name, name))
        case "systemd":
            backend = SystemdBackend(slots, user=given["user"], unit=given["unit"])
        case "slurm":
            program = given["remote"] or a3cd()[0]  # a cluster's nodes usually see the same files
            backend = SlurmBackend(group_name(name, learner), script(program, words, name), given["sbatch_option"])
        case _:
            if given["command"] is None:
                raise ConfigurationError("--start-with command needs --command 'PROGRAM ARG ...'")
            backend = CommandBackend(given["command"], learner)
    return [Place(backend, slots, actors=name)]


def _actor(words: Sequence[str], launcher: str, slot: int) -> list[str]:
    """The command line of an actor on this machine."""
    return a3cd("actor", *words, "--name", actor_name(launcher, slot), "--launcher", launcher, "--lifeline")


def _hosts(
    learner: str, words: Sequence[str], launcher: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    hosts = [*given["host"], *(given["hosts"] or ())]
    if not hosts:
        raise ConfigurationError("--start-with ssh needs --host USER@HOST:SLOTS or --hosts FILE")
    program = given["remote"] or "a3cd"
    config = str(given["ssh_config"].absolute()) if given["ssh_config"] else ""
    found = []
    for host in share_out(hosts, slots):
        ssh = ssh_command(host.destination, given["ssh_option"], config)
        backend = SshBackend(host, launcher=launcher, learner=learner, words=words, program=program, ssh=ssh)
        found.append(Place(backend, host.slots, host.name, backend.launcher))
    return found
