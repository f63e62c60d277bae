"""Hosts for actors: how they are written, and which slot is on which."""

from __future__ import annotations

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
    """Where ssh goes, and how many actors may run there."""

    destination: str
    """A host or an alias of ssh's own configuration, with USER@ or without."""
    slots: int = 0
    """0: not said."""

    @property
    def name(self) -> str:
        """For people and for the names of its actors."""
        return self.destination.rpartition("@")[2].strip("[]").replace(":", "_").replace("%", "_")


def parse(text: str) -> Host:
    """From USER@HOST[:SLOTS], an IPv6 address in brackets; raises ConfigurationError."""
    match = _FORM.fullmatch(text.strip())
    if match is None or match["slots"] == "0":
        raise ConfigurationError(f"{text!r} is no host: write USER@HOST:SLOTS, as in ann@lab-07:4 (the port: ssh's -o)")
    # ssh takes an IPv6 address bare.
    return Host(match["destination"].replace("[", "").replace("]", ""), int(match["slots"] or 0))


def read(path: Path) -> list[Host]:
    """A host per line; what follows a # is a comment. Raises ConfigurationError with the line that is wrong."""
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
    """Every host with its slots; those that said nothing share evenly what is left of `slots`.

    Raises ConfigurationError where that cannot be.
    """
    twice = {host.destination for host in hosts if [one.name for one in hosts].count(host.name) > 1}
    if twice:
        raise ConfigurationError(f"named more than once: {', '.join(sorted(twice))}; write HOST:SLOTS once")
    said, silent = sum(host.slots for host in hosts), [host for host in hosts if not host.slots]
    left = 0 if slots is None else slots - said
    if silent and left < len(silent):
        raise ConfigurationError(
            f"how many actors may run on {silent[0].destination}? Write {silent[0].destination}:2, or more --slots"
        )
    if not silent and left > 0:
        raise ConfigurationError(f"--slots {slots}, but the hosts have {said} together")
    shares = {host: left // len(silent) + (index < left % len(silent)) for index, host in enumerate(silent)}
    full = [replace(host, slots=host.slots or shares[host]) for host in hosts]
    if sum(host.slots for host in full) > MOST_SLOTS:
        raise ConfigurationError(f"more than {MOST_SLOTS} slots")
    return full


def places(hosts: Sequence[Host]) -> list[tuple[int, int]]:
    """Of each slot, its host's index and its number there: by turns, so that few actors are on many hosts."""
    rounds = range(max((host.slots for host in hosts), default=0))
    return [(index, local) for local in rounds for index, host in enumerate(hosts) if local < host.slots]
