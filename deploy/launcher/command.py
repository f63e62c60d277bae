"""The command `a3cd launcher`: makes the backends from its options, and runs the launcher."""

import importlib.util
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.arguments import finish, learner_argument, lifeline_option, wait_option
from deploy.backends.base import Backend, Place, actor_name, group_name
from deploy.backends.command import CommandBackend
from deploy.backends.hosts import MOST_SLOTS, share_out
from deploy.backends.kubernetes import KubernetesBackend, connect, in_cluster
from deploy.backends.pods import CREDENTIAL, PodOptions, label, manifest
from deploy.backends.process import ProcessBackend
from deploy.backends.ray import RayBackend
from deploy.backends.ray_driver import Plan
from deploy.backends.slurm import SlurmBackend, script
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import UNIT, SystemdBackend
from deploy.children import a3cd
from deploy.launcher.options import EXTRAS, OPTIONS, REQUEST, WAYS, amount, check_ways
from deploy.ssh import ssh_command


@click.command()
@learner_argument
@click.option(
    "--slots", type=click.IntRange(1, MOST_SLOTS), help="Most actors to run; with ssh: of all hosts without :SLOTS."
)
@click.option("--start-with", type=click.Choice(WAYS), default="process", show_default=True)
@click.option(
    "--name", default="", help="How this launcher is called in status; default: host (with process id or user)."
)
@click.option("--dry-run", is_flag=True, help="Print which actors it could start, and how; start nothing.")
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
    dry_run: bool,
    **options: Any,
) -> None:
    """Start and stop actors, as many as the learner at LEARNER orders, in the way that --start-with says.

    process: children of this launcher, which end with it. systemd: units a3cd-actor@0, @1, ... ssh: units or children
    on other hosts. slurm: tasks of job arrays. ray: actors of Ray. kubernetes: pods. command: any program that is told
    the number. Those of process and ray end with the launcher; others outlive it and are found again, and Ctrl-C ends
    them too.
    """
    logs.setup("launcher")
    check_ways(ctx, start_with)
    _check_extra(start_with)
    name = access.name(name or default_name(start_with, options["user"]))
    found = places(start_with, access, name, slots, options)
    if dry_run:
        click.echo("\n".join(_planned(access, found, name)))
        return
    from deploy.launcher.shell import run

    finish(run(access, found, name=name, prestart=options["prestart"], wait=wait))


launcher.params += OPTIONS


def _check_extra(start_with: str) -> None:
    if start_with in EXTRAS and importlib.util.find_spec(start_with) is None:
        cure = f"pip install 'a3cd[{start_with}]'"
        raise ConfigurationError(f"--start-with {start_with} needs {start_with}, which is not installed here: {cure}")


def default_name(start_with: str, user: bool = False) -> str:
    """The launcher's name where none is given; `user`: its actors are units of the user's own manager.

    Actors that outlive a launcher are found by its name, so for those ways the name must be the same tomorrow. For
    systemd it is the one that the units in deploy/units give to their launcher.
    """
    host = platform.node() or "launcher"
    if user:
        return f"{host}-{_login()}"
    return f"{host}-{os.getpid()}" if start_with in ("process", "ray") else host


def _login() -> str:
    """The name of this user, as systemd's %u; getpass.getuser() would believe the environment first."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):  # no POSIX system, or no such user: no user's manager either
        return "user"


def places(
    start_with: str, access: LearnerEndpoint, name: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    """Where the actors of the launcher `name` may run; `given`: the values of OPTIONS.

    Raises UsageError for an option that is missing.
    """
    learner = str(given["actor_learner"] or access.address)
    modules = [word for module in given["allow_module"] for word in ("--allow-module", module)]
    if start_with == "ssh":
        # No credential: each host finds its own by the learner's address.
        words = [*(["--insecure"] if access.insecure else []), *modules]
        return _hosts(learner, words, name, group_name(name, str(access.address)), slots, given)
    if slots is None:
        raise click.UsageError("--slots N says how many actors may run")
    # --nice: actors give way to whoever uses the host, and to a learner on it.
    words = [*_way_in(access, given["actor_learner"], here=start_with == "process"), "--nice", "10", *modules]
    backend: Backend
    actors = name
    match start_with:
        case "process":
            backend = ProcessBackend(partial(_actor, words, name), partial(actor_name, name))
        case "systemd":
            backend = SystemdBackend(slots, user=given["user"], unit=given["unit"])
            actors = _named_by_units(name, given["user"], given["unit"])
        case "slurm":
            program = [given["remote"]] if given["remote"] else a3cd()  # a cluster's nodes usually see the same files
            group = group_name(name, str(access.address))
            backend = SlurmBackend(group, script(program, words, name), given["sbatch_option"])
        case "ray":
            backend = _ray(access, modules, name, given)
        case "kubernetes":
            backend = _pods(access, modules, name, given)
        case _:
            if given["command"] is None:
                raise click.UsageError("--start-with command needs --command 'PROGRAM ARG ...'")
            backend = CommandBackend(given["command"], learner)
            actors = ""
    return [Place(backend, slots, actors=actors)]


def _named_by_units(launcher: str, user: bool, unit: str) -> str:
    """What the names of the actors of systemd's units begin with; empty: it is not known.

    The units in deploy/units name their actors after the launcher's default name, whatever this launcher is called, and
    their keys may have other names than its own. An operator's own template may name its actors anything.
    """
    named = default_name("systemd", user)
    return named if unit == UNIT and launcher.rpartition("/")[2] == named else ""


def _planned(access: LearnerEndpoint, found: Sequence[Place], name: str) -> Iterator[str]:
    slots = sum(place.slots for place in found)
    way = "without keys" if access.credential is None else f"with the key {access.credential.pair.name}"
    yield f"launcher {name}, for the learner at {access.address} ({way}): {slots} slots"
    for place in found:
        for slot in range(place.slots):
            yield f"  {f'{place.name} ' if place.name else ''}{slot}: {place.backend.shown(slot)}"
        place.backend.close()
    yield "Nothing was started; the learner was not asked. It says how many of these it wants."


def _way_in(access: LearnerEndpoint, elsewhere: Address | None, *, here: bool) -> list[str]:
    """The first arguments of an actor. For another address, such as a relay's, it finds its own credential.

    `here`: whether it runs on this host. If so, it looks in the key folder that this launcher was given, which another
    host need not have; there it looks in its own.
    """
    folder = access.folder if here else None
    if elsewhere is None:
        return replace(access, folder=folder).arguments()
    return LearnerEndpoint(elsewhere, insecure=access.insecure, folder=folder).arguments()


def _actor(words: Sequence[str], launcher: str, slot: int) -> list[str]:
    """The command line of an actor on this machine."""
    return a3cd("actor", *words, "--name", actor_name(launcher, slot), "--launcher", launcher, "--lifeline")


def _ray(access: LearnerEndpoint, modules: Sequence[str], launcher: str, given: Mapping[str, Any]) -> Backend:
    """The backend for Ray. It passes no credential on: each host finds its own by the learner's address."""
    learner = given["actor_learner"] or access.address
    wanted = {key: amount(text) for key, text in (REQUEST | given["request"]).items()}
    plan = Plan(
        given["ray"],
        launcher,
        ("actor", str(learner), *(["--insecure"] if access.insecure else []), *modules, "--launcher", launcher),
        wanted.pop("cpu"),
        int(wanted.pop("memory")),
        wanted,
        given["runtime_env"] or {},
    )
    return RayBackend(plan)


def _pods(access: LearnerEndpoint, modules: Sequence[str], launcher: str, given: Mapping[str, Any]) -> Backend:
    """The backend for Kubernetes. Pods have their own credential, or none: this host's is not sent to the cluster."""
    if given["image"] is None and not in_cluster():
        raise click.UsageError("--start-with kubernetes needs --image IMAGE, with a3cd in it")
    if access.insecure == bool(given["secret"]):
        raise click.UsageError(
            f"pods need a way in: --secret NAME, the Secret with the actors' {CREDENTIAL}, or else --insecure"
        )
    learner = given["actor_learner"] or access.address
    if learner.loopback and given["actor_learner"] is None:
        raise click.UsageError(f"no pod reaches the learner at {learner}: --actor-learner says where it does")
    options = PodOptions(
        given["secret"] or "",
        REQUEST | given["request"],
        given["limit"] or ({} if "memory" in given["request"] else {"memory": "1Gi"}),
        given["node_selector"],
        given["service_account"] or "",
    )
    group = label(group_name(launcher, str(access.address)))
    words = ["actor", str(learner), *(["--insecure"] if access.insecure else []), *modules, "--launcher", launcher]
    api, namespace = connect(given["context"] or "", given["namespace"] or "")
    return KubernetesBackend(
        api,
        namespace,
        group,
        lambda slot, image: manifest(group, slot, image, [*words, "--name", actor_name(launcher, slot)], options),
        given["image"] or "",
    )


def _hosts(
    learner: str, words: Sequence[str], launcher: str, group: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    hosts = [*given["host"], *(given["hosts"] or ())]
    if not hosts:
        raise click.UsageError("--start-with ssh needs --host USER@HOST:SLOTS or --hosts FILE")
    program = given["remote"] or "a3cd"
    config = str(given["ssh_config"].absolute()) if given["ssh_config"] else ""
    try:
        shared = share_out(hosts, slots)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    found = []
    for host in shared:
        ssh = ssh_command(host.destination, given["ssh_option"], config)
        backend = SshBackend(
            host, launcher=launcher, group=group, learner=learner, words=words, program=program, ssh=ssh
        )
        found.append(Place(backend, host.slots, host.name, backend.launcher))
    return found
