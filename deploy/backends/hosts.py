"""Hosts for actors, as the operator writes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import ConfigurationError

MOST_SLOTS = 4096
_FORM = re.compile(
    r"(?P<destination>(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(?::(?P<slots>\d{1,4}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Host:
    destination: str
    """A host or an alias of ssh's configuration, with USER@ or without."""
    slots: int = 0
    """Most actors that may run there; 0: not given."""

    @property
    def name(self) -> str:
        """The host's name as people see it, and as it is in the names of its actors."""
        return self.destination.rpartition("@")[2].strip("[]").replace(":", "_").replace("%", "_")


def parse(text: str) -> Host:
    """Reads USER@HOST[:SLOTS], an IPv6 address in brackets; raises ConfigurationError."""
    match = _FORM.fullmatch(text.strip())
    if match is None or int(match["slots"] or 1) == 0:
        raise ConfigurationError(f"{text!r} is no host: write USER@HOST:SLOTS, as in ann@lab-07:4 (the port: ssh's -o)")
    # ssh takes an IPv6 address without brackets.
    return Host(match["destination"].replace("[", "").replace("]", ""), int(match["slots"] or 0))


def read(path: Path) -> list[Host]:
    """Reads a file with a host per line and comments after #; raises ConfigurationError with the wrong line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    hosts = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        try:
            hosts += [parse(text)] if text else []
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, line {number}: {error}") from None
    return hosts


def share_out(hosts: Sequence[Host], slots: int | None) -> list[Host]:
    """Shares the rest of `slots` equally among the hosts without a number of their own. Raises ConfigurationError."""
    twice = {host.destination for host in hosts if [one.name for one in hosts].count(host.name) > 1}
    if twice:
        raise ConfigurationError(f"named more than once: {', '.join(sorted(twice))}; write HOST:SLOTS once")
    given = sum(host.slots for host in hosts)
    silent = [host for host in hosts if not host.slots]
    left = 0 if slots is None else slots - given
    if silent and left < len(silent):
        raise ConfigurationError(
            f"how many actors may run on {silent[0].destination}? Write {silent[0].destination}:2, or more --slots"
        )
    if not silent and left > 0:
        raise ConfigurationError(f"--slots {slots}, but the hosts have {given} together")
    shares = {host: left // len(silent) + (index < left % len(silent)) for index, host in enumerate(silent)}
    full = [replace(host, slots=host.slots or shares[host]) for host in hosts]
    if sum(host.slots for host in full) > MOST_SLOTS:
        raise ConfigurationError(f"more than {MOST_SLOTS} slots")
    return full
