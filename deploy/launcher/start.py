"""From the command line's words to a launcher with its backend."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from common.host.security.access import LearnerEndpoint
from deploy.backends.base import Backend
from deploy.backends.command import CommandBackend
from deploy.backends.process import ProcessBackend, actor_command, actor_name
from deploy.backends.slurm import SlurmBackend, job_name, script
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from deploy.launcher.options import Options
from deploy.launcher.shell import run

NICE = 10
"""Actors give way to whoever uses the host, and to a learner on it."""


def start(
    access: LearnerEndpoint,
    *,
    slots: int,
    start_with: str,
    name: str,
    warm: int,
    modules: Sequence[str] = (),
    options: Options | None = None,
) -> int:
    """Runs a launcher whose actors are started with `start_with`; returns its exit code.

    `modules` are those that the learner may have actors import.
    """
    name = access.name(name or _default_name(start_with))
    backend = _backend(start_with, access, name, slots, modules, options or Options())
    return run(access, slots=slots, backend=backend, name=name, warm=warm)


def _default_name(start_with: str) -> str:
    """Where actors outlive the launcher its name must be the same tomorrow, for it is what they are found by."""
    host = platform.node() or "launcher"
    return f"{host}-{os.getpid()}" if start_with == "process" else host


def _backend(
    kind: str, access: LearnerEndpoint, launcher: str, slots: int, modules: Sequence[str], options: Options
) -> Backend:
    common = ["--nice", str(NICE), *(word for module in modules for word in ("--allow-module", module))]
    here = [*access.arguments(), *common]
    match kind:
        case "process":
            return ProcessBackend(
                lambda slot: actor_command(here, launcher, actor_name(launcher, slot)),
                lambda slot: actor_name(launcher, slot),
            )
        case "systemd":
            return SystemdBackend(slots, user=options.user, template=options.unit)
        case "ssh":
            # Not this host's credential: each host has its own, where it finds it by the learner's address.
            there = [str(access.address), *(["--insecure"] if access.insecure else []), *common]
            return SshBackend(
                options.hosts,
                launcher=launcher,
                way=there,
                program=options.remote or "a3cd",
                options=options.ssh_options,
                config=options.ssh_config,
            )
        case "slurm":
            name = job_name(launcher, str(access.address))
            return SlurmBackend(name, script(options.remote or _here(), here, launcher), options.sbatch_options)
        case "command":
            return CommandBackend(options.command, str(access.address))
        case _:
            raise ValueError(f"no backend is called {kind!r}")


def _here() -> str:
    """The a3cd of this environment: a cluster's nodes usually see the same files."""
    script = Path(sys.executable).with_name("a3cd")
    return str(script) if script.exists() else "a3cd"
