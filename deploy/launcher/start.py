"""Makes the backends of a launcher from the options of its command line."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from common.errors import ConfigurationError
from common.host.security.access import LearnerEndpoint
from deploy.backends.base import Backend, Place, actor_name, group_name
from deploy.backends.command import CommandBackend
from deploy.backends.hosts import share_out
from deploy.backends.process import ProcessBackend
from deploy.backends.slurm import SlurmBackend, script
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from deploy.children import a3cd
from deploy.ssh import ssh_command

NICE = ("--nice", "10")
"""Actors give way to whoever uses the host, and to a learner on it."""


def launcher_name(start_with: str) -> str:
    """The default name. Actors that outlive the launcher are found by it, so it must be the same tomorrow."""
    host = platform.node() or "launcher"
    return f"{host}-{os.getpid()}" if start_with == "process" else host


def places(
    start_with: str, access: LearnerEndpoint, launcher: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    """Where actors may run, with the backend of each place; raises ConfigurationError for an option that lacks.

    `given`: the values of `deploy.launcher.options`.
    """
    learner = str(access.address)
    modules = [word for module in given["allow_module"] for word in ("--allow-module", module)]
    if start_with == "ssh":
        return _hosts(learner, [*(["--insecure"] if access.insecure else []), *modules], launcher, slots, given)
    if slots is None:
        raise ConfigurationError("--slots N says how many actors may run")
    words = [*access.arguments(), *NICE, *modules]
    backend: Backend
    match start_with:
        case "process":
            backend = ProcessBackend(partial(_actor, words, launcher), partial(actor_name, launcher))
        case "systemd":
            backend = SystemdBackend(slots, user=given["user"], unit=given["unit"])
        case "slurm":
            program = given["remote"] or a3cd()[0]  # a cluster's nodes usually see the same files
            text = script(program, words, launcher)
            backend = SlurmBackend(group_name(launcher, learner), text, given["sbatch_option"])
        case "command":
            if given["command"] is None:
                raise ConfigurationError("--start-with command needs --command 'PROGRAM ARG ...'")
            backend = CommandBackend(given["command"], learner)
        case _:
            raise ValueError(f"there is no backend {start_with!r}")
    return [Place(backend, slots)]


def _hosts(
    learner: str, words: Sequence[str], launcher: str, slots: int | None, given: Mapping[str, Any]
) -> list[Place]:
    """`words` have no credential: each host finds its own by the learner's address."""
    hosts = [*given["host"], *(given["hosts"] or ())]
    if not hosts:
        raise ConfigurationError("--start-with ssh needs --host USER@HOST:SLOTS or --hosts FILE")
    program = given["remote"] or "a3cd"
    config = str(given["ssh_config"].absolute()) if given["ssh_config"] else ""
    found = []
    for host in share_out(hosts, slots):
        ssh = ssh_command(host.destination, given["ssh_option"], config)
        backend = SshBackend(host, launcher=launcher, learner=learner, words=words, program=program, ssh=ssh)
        found.append(Place(backend, host.slots, host.name))
    return found


def _actor(words: Sequence[str], launcher: str, slot: int) -> list[str]:
    """The command line of an actor on this machine."""
    return a3cd("actor", *words, "--name", actor_name(launcher, slot), "--launcher", launcher, "--lifeline")
