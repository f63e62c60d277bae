"""An ssh server on a host that takes one key and no password, and the way to it: own host keys, known beforehand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.helpers.waiting import until
from tests.hosts.network import Host

_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
SSHD = shutil.which("sshd", path=_PLACES)
_SERVER = """
ListenAddress {address}
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
SetEnv PATH={path} OMP_NUM_THREADS=1
"""
_CLIENT = """
Host {hosts}
    User root
    IdentityFile ~/.ssh/id
    IdentitiesOnly yes
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 20
"""


def lacking() -> str:
    """Why there can be no ssh server here; empty: there can."""
    missing = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    missing += [] if SSHD else ["sshd"]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextmanager
def servers(hosts: tuple[Host, ...], client: Host, folder: Path) -> Iterator[None]:
    """One on each of `hosts`; root on `client` may log in to all of them, by name and by address."""
    _new_key(folder / "id")
    known = ""
    for host in hosts:
        _allow_logins(host)
        own = folder / host.name
        own.mkdir()
        public = _new_key(own / "host")
        known += f"{host.name},{host.address} {public}\n"
        (own / "authorized").write_text((folder / "id.pub").read_text())
        (own / "sshd.conf").write_text(
            _SERVER.format(address=host.address, folder=own, path=f"{Path(sys.executable).parent}:{os.defpath}")
        )
    _give(client, "id", (folder / "id").read_text())
    _give(client, "known_hosts", known)
    _give(client, "config", _CLIENT.format(hosts=" ".join(f"{host.name} {host.address}" for host in hosts)))
    with ExitStack() as stack:
        for host in hosts:
            stack.enter_context(_server(host, folder / host.name))
        yield


@contextmanager
def _server(host: Host, folder: Path) -> Iterator[None]:
    log = folder / "log"
    with log.open("wb") as out:
        process = host.popen(
            [str(SSHD), "-D", "-e", "-f", str(folder / "sshd.conf")], stdin=subprocess.DEVNULL, stderr=out
        )
    try:
        until(
            lambda: "Server listening" in log.read_text() or process.poll() is not None,
            f"an ssh server on {host.name}",
        )
        if process.poll() is not None:
            raise RuntimeError(f"sshd on {host.name} ended: {log.read_text()}")
        yield
    finally:
        host.end_all()  # logins and what they left too
        process.wait()


def _new_key(path: Path) -> str:
    """Makes a pair; the public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


def _give(host: Host, name: str, text: str) -> None:
    """A file in root's ~/.ssh on that host alone."""
    path = host.path(f"/root/.ssh/{name}")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _allow_logins(host: Host) -> None:
    """An account that is locked, as root's is on many an image, takes no keys without PAM."""
    shadow = host.path("/etc/shadow")
    if shadow.exists():
        lines = shadow.read_text().splitlines()
        lines = [line.replace("root:!", "root:*", 1) for line in lines]
        shadow.write_text("\n".join(lines) + "\n")
