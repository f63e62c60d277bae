"""The way to machines for `ssh -F`: key-only, host keys known, and an sshd that is started for each connection."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.systemd.machine import Machine

_SSHD = ("/usr/sbin/sshd", "-i", "-f", "/dev/null", "-h", "/etc/host_key", "-o", "PasswordAuthentication=no")
_HOST = """
Host {name}
  IdentityFile {folder}/client
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking yes
  ProxyCommand {proxy}
"""


def ssh_to(folder: Path, *machines: Machine) -> Path:
    """The configuration, in `folder`; needs no network. Skips the test where there is no sshd."""
    if not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("not installed: openssh-server, openssh-client")
    for name in ("client", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    known, config = folder / "known", folder / "config"
    known.touch()
    config.touch()
    for machine in machines:
        home = machine.root / "root/.ssh"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "authorized_keys").write_text((folder / "client.pub").read_text())
        shutil.copy(folder / "host", machine.root / "etc/host_key")
        machine.run("mkdir", "-p", "/run/sshd")
        with known.open("a") as file:
            file.write(f"{machine.name} {(folder / 'host.pub').read_text()}")
        with config.open("a") as file:
            proxy = shlex.join([*machine.prefix(), *_SSHD])
            file.write(_HOST.format(name=machine.name, folder=folder, proxy=proxy))
    return config
