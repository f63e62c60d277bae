"""Actors on other hosts: one ssh per host to `a3cd hold` there, which keeps the actors.

Key-only, and no host is taken whose key is unknown. The remote command is constant words; all else is JSON lines.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from common.errors import ConfigurationError
from deploy.backends.base import Backend, Condition, Ended, Found
from deploy.backends.connection import Connection
from deploy.backends.hosts import Host, places
from deploy.backends.process import actor_name
from deploy.backends.site import News, Site
from deploy.hold.messages import PROTOCOL, AnyLine, Greeting, Ping

PING_SECONDS = 5.0
LEASE_SECONDS = 600.0
"""Actors without a launcher are ended by their holder after so long; see `deploy.hold.holder`."""
MARGIN_SECONDS = 60.0
"""After the lease, before actors are started elsewhere: for what was on its way, and for clocks that differ."""
CLOSE_SECONDS = 2.0
FIXED = (
    *("BatchMode=yes", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "StrictHostKeyChecking=yes"),
    *("ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "RequestTTY=no"),
    *("ControlMaster=no", "ControlPath=none", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=10"),
)
"""First on the command line, where ssh takes the first value that it finds."""
_FIXED_KEYS = {option.partition("=")[0].lower() for option in FIXED}
_OPTION = re.compile(r"(?P<key>[A-Za-z0-9]+)=[^\r\n\0]+", re.ASCII)
_PROGRAM = re.compile(r"(?:~/|/)?[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*", re.ASCII)


def check_option(text: str) -> str:
    """An option of ssh, KEY=VALUE; raises ConfigurationError for one that stands already."""
    match = _OPTION.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{text!r}: write an option of ssh as KEY=VALUE, as in Port=2222")
    if match["key"].lower() in _FIXED_KEYS:
        raise ConfigurationError(f"{text!r}: a3cd sets {match['key']} itself ({', '.join(FIXED[:4])}, ...)")
    return text


def check_program(text: str) -> str:
    """Where a3cd is on the hosts; raises ConfigurationError for what a remote shell could read otherwise."""
    if not _PROGRAM.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is no path of a3cd: letters, digits and any of ._+-/ as in /opt/a3cd/bin/a3cd"
        )
    return text


def ssh_command(
    destination: str, program: str = "a3cd", options: Sequence[str] = (), config: str = "", ssh: str = "ssh"
) -> list[str]:
    """What is run for a host."""
    written = [word for option in (*FIXED, *map(check_option, options)) for word in ("-o", option)]
    return [ssh, *(("-F", config) if config else ()), "-T", *written, "--", destination, check_program(program), "hold"]


class SshBackend(Backend):
    """Slots by turns over the hosts; a host that cannot be reached has no slots until it can."""

    outlives = True

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        launcher: str,
        way: Sequence[str],
        program: str = "a3cd",
        options: Sequence[str] = (),
        config: str = "",
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`way`: the learner's address, and the options that go with it on every host. Connects at the first poll."""
        self._hosts = list(hosts)
        self._places = places(hosts)
        self._numbers = {place: number for number, place in enumerate(self._places)}
        self._lock = threading.RLock()
        self._news: list[News] = []
        self._ping_due = 0.0
        self._expiry = lease_seconds + MARGIN_SECONDS
        greeting = Greeting(PROTOCOL, launcher, way[0], list(way[1:]), lease_seconds)
        self._sites = [Site(host.slots, partial(actor_name, f"{launcher}-{host.name}")) for host in self._hosts]
        self._connections = [
            Connection(
                ssh_command(host.destination, program, options, config),
                greeting,
                hear=partial(self._hear, index),
                lost=partial(self._lost, index),
            )
            for index, host in enumerate(self._hosts)
        ]

    def host(self, slot: int) -> str:
        """Its name."""
        return self._hosts[self._places[slot][0]].name

    def start(self, slot: int) -> None:
        """Asks the holder on the slot's host; if it cannot be reached, when it can."""
        index, local = self._places[slot]
        with self._lock:
            self._send(index, self._sites[index].start(local))

    def stop(self, slot: int, kill: bool = False) -> None:
        """Likewise."""
        index, local = self._places[slot]
        with self._lock:
            self._send(index, self._sites[index].stop(local, kill))

    def poll(self) -> list[Ended | Found]:
        """What the holders told; also a sign of life to them, since actors without a launcher are ended."""
        now = time.monotonic()
        for connection in self._connections:
            connection.start()
            connection.check(now)
        with self._lock:
            for index, connection in enumerate(self._connections):
                if now - connection.contact > self._expiry:
                    name = self._hosts[index].name
                    why = f"no connection to {name} for {self._expiry:.0f} s: it has been ended there"
                    self._take(index, self._sites[index].expired(why))
                if now >= self._ping_due and self._sites[index].connected:
                    self._send(index, [Ping()])
            if now >= self._ping_due:
                self._ping_due = now + PING_SECONDS
            news, self._news = self._news, []
        return news

    @property
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet, as far as is known."""
        with self._lock:
            told = {event.slot for event in self._news if isinstance(event, Ended)}
            return told | self._of(lambda site: site.running)

    @property
    def condition(self) -> Condition:
        """Ready: the slots of the hosts whose holders answer; nothing is settled before each has had its chance."""
        with self._lock:
            up = [site.connected for site in self._sites]
            settled = all(known or connection.tried for known, connection in zip(up, self._connections, strict=True))
            ready = {number for (index, _), number in self._numbers.items() if up[index]} if settled else set()
            troubles = (
                f"{host.name}: {connection.trouble}"
                for host, connection in zip(self._hosts, self._connections, strict=True)
                if connection.trouble
            )
            starting = self._of(lambda site: site.asked)
            return Condition("; ".join(troubles), frozenset(starting), frozenset(ready), settled)

    def close(self) -> None:
        """Lets go of the holders, which keep their actors for a while."""
        for connection in self._connections:
            connection.leave()
        until = time.monotonic() + CLOSE_SECONDS
        for connection in self._connections:
            connection.close(until - time.monotonic())

    def _of(self, which: Callable[[Site], set[int]]) -> set[int]:
        return {self._numbers[index, local] for index, site in enumerate(self._sites) for local in which(site)}

    def _send(self, index: int, lines: Sequence[AnyLine]) -> None:
        for line in lines:
            self._connections[index].send(line)

    def _hear(self, index: int, line: AnyLine) -> None:
        with self._lock:
            lines, news = self._sites[index].handle(line)
            self._send(index, lines)
            self._take(index, news)

    def _lost(self, index: int) -> None:
        with self._lock:
            self._sites[index].lost()

    def _take(self, index: int, news: Sequence[News]) -> None:
        """With the slots' numbers here."""
        self._news += [replace(event, slot=self._numbers[index, event.slot]) for event in news]
