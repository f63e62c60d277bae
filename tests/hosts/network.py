"""Several hosts on this machine: each with its own network, hostname, /etc, /root, /run, and /tmp/a3cd-*.

A host is a process that holds Linux namespaces and ends when its standard input does, so that the kernel removes the
whole network, however the tests end. Nothing is named, and nothing is added to the machine's own namespaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import psutil

from tests.hosts.wire import Wire

PREFIX = "10.77.0"
PROGRAMS = ("ip", "unshare", "nsenter", "mount", "hostname")
TUN = Path("/dev/net/tun")
PATIENCE_SECONDS = 60.0
_CLONE_NEWNET = 0x40000000
_SWITCH = "set -eu; ip link set lo up; ip link add br0 type bridge; ip link set br0 up; echo ready; exec cat"
_HOST = """
set -eu
hostname "$1"
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/own /run/.etc /run/own/etc /run/.root /run/own/root
for folder in etc root; do
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=/run/own/$folder,workdir=/run/.$folder" "/$folder"
done
mkdir /run/tmp
mount --rbind /tmp /run/tmp
mount -t tmpfs -o mode=1777 tmpfs /tmp
for folder in /run/tmp/*/; do
    name=$(basename "$folder")
    case $name in
        a3cd-*) ;;
        *) mkdir "/tmp/$name"; mount --rbind "$folder" "/tmp/$name" || [ ! -e "$folder" ] ;;  # others' come and go
    esac
done
ip link set lo up
echo ready
exec cat
"""
"""All else that is in /tmp is the machine's, where the tests keep their files."""


_PROBE = """
set -e
mount -t tmpfs tmpfs /run
mkdir /run/upper /run/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
ip link add br0 type bridge
ip link add one type veth peer name other
"""


@cache
def lacking() -> str:
    """Why there can be no such network here; empty: there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    probe = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "sh", "-c", _PROBE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return f"no namespaces may be made here: {probe.stderr.strip()}" if probe.returncode else ""


def lacking_wires() -> str:
    """Why no cable can be a `Wire` here."""
    return lacking() or ("" if TUN.exists() else f"no {TUN}")


class Namespaces:
    """A process that holds some."""

    def __init__(self, kinds: tuple[str, ...], script: str, *arguments: str) -> None:
        """Runs `script` in new namespaces; it says `ready` and waits for the end of its input."""
        self._kinds = kinds
        self._holder = subprocess.Popen(
            ["unshare", *kinds, "sh", "-c", script, "sh", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._holder.pid
        self.net = f"/proc/{self.pid}/ns/net"
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self._let_go()
            raise RuntimeError(f"no namespaces {' '.join(kinds)}: exit code {self._holder.returncode}")

    def enter(self, folder: Path | str = "/") -> tuple[str, ...]:
        """What to put before a command so that it runs in here; it becomes the command's own process."""
        return ("nsenter", "--target", str(self.pid), *self._kinds, "env", f"--chdir={folder}")

    def popen(self, command: list[str], folder: Path | str = "/", **options: Any) -> subprocess.Popen[Any]:
        """As subprocess.Popen."""
        return subprocess.Popen([*self.enter(folder), *command], **options)

    def run(self, command: list[str], folder: Path | str = "/", **options: Any) -> str:
        """What it prints; raises CalledProcessError when it fails."""
        done = subprocess.run(
            [*self.enter(folder), *command],
            **{"check": True, "stdout": subprocess.PIPE, "text": True, "timeout": PATIENCE_SECONDS, **options},
        )
        return str(done.stdout)

    def processes(self) -> list[psutil.Process]:
        """All that run in here, the holder left out, whoever started them."""
        mine = Path(self.net).readlink()
        if mine == Path(f"/proc/{os.getpid()}/ns/net").readlink():
            raise RuntimeError("these are the machine's own processes")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, psutil.Error):
                number = int(folder.name)
                if number != self.pid and (folder / "ns" / "net").readlink() == mine:
                    found.append(psutil.Process(number))
        return found

    def end_all(self) -> None:
        """Kills everything in here."""
        while some := self.processes():
            for process in some:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.01)  # and not psutil's wait, which would take exit codes from whoever waits for them

    def close(self) -> None:
        """Nothing of it is left afterwards."""
        if self._holder.poll() is None:
            self.end_all()
        self._let_go()

    def _let_go(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Host(Namespaces):
    """The first has the address 10.77.0.1, and so on; all know one another's names."""

    def __init__(self, number: int, name: str) -> None:
        """Not plugged in yet."""
        self.number, self.name, self.address = number, name, f"{PREFIX}.{number}"
        super().__init__(("--net", "--uts", "--mount"), _HOST, self.name)

    def path(self, absolute: str) -> Path:
        """A file of this host as seen from outside: what is written to /etc and /root stays with the host."""
        return Path(f"/proc/{self.pid}/root{absolute}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and threads it starts meanwhile, are in this host's network."""
        with ExitStack() as stack:
            back = stack.enter_context(Path("/proc/thread-self/ns/net").open("rb"))
            there = stack.enter_context(Path(self.net).open("rb"))
            _set_network(there.fileno())
            stack.callback(_set_network, back.fileno())
            yield


def _set_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Hosts round one switch."""

    def __init__(self, switch: Namespaces, hosts: tuple[Host, ...]) -> None:
        """Plugs all of them in."""
        self.switch, self.hosts = switch, hosts
        names = "".join(f"{host.address} {host.name}\n" for host in hosts)
        for host in hosts:
            host.path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{names}")
            self._plug(host)

    def _plug(self, host: Host) -> None:
        link = f"link add eth0 type veth peer name {host.name} netns {self.switch.pid}"
        host.run(["ip", *link.split()])
        self._connect(host)

    def _connect(self, host: Host) -> None:
        """Each end has its address; the hardware's stays too, so that the others still find the host."""
        self.switch.run(["ip", "link", "set", host.name, "master", "br0", "up"])
        host.run(["ip", "link", "set", "eth0", "address", f"02:77:00:00:00:{host.number:02x}"])
        host.run(["ip", "address", "add", f"{host.address}/24", "dev", "eth0"])
        host.run(["ip", "link", "set", "eth0", "up"])

    @contextmanager
    def wire(self, host: Host, seed: int = 0) -> Iterator[Wire]:
        """The host's cable is a slow one meanwhile; at first it is a perfect one."""
        host.run(["ip", "link", "delete", "eth0"])
        try:
            with Wire((host.net, "eth0"), (self.switch.net, host.name), seed) as one:
                self._connect(host)
                yield one
        finally:
            self._plug(host)


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Hosts of these names; all that runs on them is ended with them."""
    with ExitStack() as stack:
        switch = stack.enter_context(Namespaces(("--net",), _SWITCH))
        yield Network(switch, tuple(stack.enter_context(Host(number, name)) for number, name in enumerate(names, 1)))
