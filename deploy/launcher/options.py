"""The options of the ways to start actors: whose each is, and what it may hold."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import ConfigurationError
from deploy.backends.command import COUNT
from deploy.backends.hosts import Host, share_out
from deploy.backends.hosts import parse as parse_host
from deploy.backends.hosts import read as read_hosts
from deploy.backends.slurm import SET_HERE
from deploy.backends.ssh import check_option, check_program
from deploy.backends.systemd import UNIT

WAYS = ("process", "systemd", "ssh", "slurm", "command")
BELONGS = {
    "user": ("systemd",),
    "unit": ("systemd",),
    "host": ("ssh",),
    "hosts": ("ssh",),
    "ssh_option": ("ssh",),
    "ssh_config": ("ssh",),
    "remote": ("ssh", "slurm"),
    "sbatch_option": ("slurm",),
    "command": ("command",),
    "modules": ("process", "ssh", "slurm"),
    "warm": ("process",),
}
"""Options that not every way has."""
_UNIT = re.compile(r"[A-Za-z0-9:_.][A-Za-z0-9:_.-]*@", re.ASCII)
_SBATCH = re.compile(r"(?P<key>[a-z][a-z-]*)(?:=[^\r\n\0]*)?", re.ASCII)


@dataclass(frozen=True)
class Options:
    """Each way takes its own."""

    user: bool = False
    unit: str = UNIT
    hosts: tuple[Host, ...] = ()
    ssh_options: tuple[str, ...] = ()
    ssh_config: str = ""
    remote: str = ""
    """Where a3cd is on other hosts."""
    sbatch_options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def gather(
    start_with: str,
    *,
    user: bool,
    unit: str,
    host: tuple[str, ...],
    hosts: Path | None,
    ssh_option: tuple[str, ...],
    ssh_config: Path | None,
    remote: str | None,
    sbatch_option: tuple[str, ...],
    command: str | None,
) -> Options:
    """From the words of the command line, each checked in itself; raises ConfigurationError."""
    if not _UNIT.fullmatch(unit):
        raise ConfigurationError(f"--unit {unit!r}: write a template's name up to its @, as in {UNIT}")
    listed = [*map(parse_host, host), *(read_hosts(hosts) if hosts else [])]
    if start_with == "ssh" and not listed:
        raise ConfigurationError("--start-with ssh needs --host USER@HOST:SLOTS or --hosts FILE")
    return Options(
        user=user,
        unit=unit,
        hosts=tuple(listed),
        ssh_options=tuple(map(check_option, ssh_option)),
        ssh_config=str(ssh_config.absolute()) if ssh_config else "",
        remote=check_program(remote) if remote else "",
        sbatch_options=tuple(map(_sbatch_option, sbatch_option)),
        command=_words(command) if start_with == "command" else (),
    )


def _sbatch_option(text: str) -> str:
    match = _SBATCH.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--sbatch-option {text!r}: write KEY=VALUE without dashes, as in partition=cpu")
    if match["key"] in SET_HERE:
        raise ConfigurationError(f"--sbatch-option {text!r}: a3cd sets {match['key']} itself")
    return text


def _words(command: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command or ""))
    except ValueError as error:
        raise ConfigurationError(f"--command {command!r}: {error}") from None
    if not any(COUNT in word for word in words[1:]):
        raise ConfigurationError(
            "--start-with command needs --command 'PROGRAM ARG ...' with {count} among the arguments"
        )
    return words


def with_slots(options: Options, start_with: str, slots: int | None) -> tuple[Options, int]:
    """How many actors there can be in all, and on each host; raises ConfigurationError."""
    if start_with == "ssh":
        shared: list[Host] = share_out(options.hosts, slots)
        return replace(options, hosts=tuple(shared)), sum(host.slots for host in shared)
    if slots is None:
        raise ConfigurationError("--slots N says how many actors may run")
    return options, slots
