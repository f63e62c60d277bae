"""`a3cd launcher --start-with ssh`: learner, launcher, sshd and the systemd that keeps the actors, on one machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from common.run import presets
from common.run.status import PeerStatus, RunStatus
from tests.helpers.waiting import until
from tests.systemd.conftest import prepared
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
A3CD = "/opt/a3cd/bin/a3cd"
AT = "tcp://127.0.0.1:5555"
_SSHD = "/usr/sbin/sshd -i -f /dev/null -h /etc/host_key -o PasswordAuthentication=no -o UsePAM=yes"
_SCRIPT = '#!/bin/sh\nexec /opt/a3cd/bin/python -P -c "from deploy.cli.command import main; main()" "$@"\n'
_CONFIG = f"""
Host box
  IdentityFile /etc/ssh_client
  UserKnownHostsFile /etc/ssh_known
  ProxyCommand {_SSHD}
"""


class Lab:
    """A learner that orders two actors, and launchers that reach the machine by ssh, all on it."""

    def __init__(self, host: Machine) -> None:
        self.host = host
        (packages,) = (host.root / "opt/a3cd/lib").glob("python3*/site-packages")
        for room in ("common", "actor", "learner", "deploy"):
            shutil.copytree(ROOT / room, packages / room, ignore=shutil.ignore_patterns("__pycache__"))
        script = host.root / A3CD.lstrip("/")
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        (host.root / "etc/run.toml").write_text(presets.show("CartPole-v1").text)
        (host.root / "etc/ssh_config").write_text(_CONFIG)
        host.run("mkdir", "-p", "/run/sshd")
        for name in ("ssh_client", "host_key"):
            host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/etc/{name}")
        (host.root / "etc/ssh_known").write_text(f"box {(host.root / 'etc/host_key.pub').read_text()}")
        settings = ("limits.until_return=1000.0", "environment.step_seconds=0.005", "scaling.policy='fixed'")
        words = [word for setting in (*settings, "scaling.minimum=2") for word in ("--set", setting)]
        self.start("learner", "--config", "/etc/run.toml", "--bind", AT, "--run-dir", "/var/run-of-test", *words)

    def invite(self, user: str, home: str) -> None:
        """The launcher's key lets `user` in."""
        self.host.run("mkdir", "-p", f"{home}/.ssh")
        self.host.run("cp", "/etc/ssh_client.pub", f"{home}/.ssh/authorized_keys")
        self.host.run("chown", "-R", f"{user}:", f"{home}/.ssh")
        self.host.run("chmod", "-R", "go=", f"{home}/.ssh")

    def start(self, role: str, *words: str) -> None:
        """a3cd on the machine, as the unit ROLE.service."""
        self.host.run("systemd-run", "--collect", f"--unit={role}", A3CD, role, *words)

    def launcher(self, user: str) -> None:
        ssh = ("--host", f"{user}@box:3", "--ssh-config", "/etc/ssh_config", "--remote", A3CD)
        self.start("launcher", AT, "--name", f"lab-{user}", "--start-with", "ssh", *ssh)

    def end_launcher(self, signal: str) -> None:
        self.host.run("systemctl", "kill", "--kill-who=main", f"--signal={signal}", "launcher")
        until(lambda: self.host.show("launcher", "ActiveState")["ActiveState"] == "inactive", "the launcher's end")

    def status(self) -> RunStatus | None:
        said = self.host.run(A3CD, "status", AT, "--json", "--timeout", 2, check=False)
        return msgspec.json.decode(said, type=RunStatus) if said else None

    def actors(self, good: Callable[[list[PeerStatus]], object]) -> set[int]:
        """Process ids of the actors, once `good` holds for them and the one launcher counts them as running."""

        def look() -> list[PeerStatus] | None:
            status = self.status()
            if status is None or [fleet.running for fleet in status.launchers] != [len(status.actors)]:
                return None
            return status.actors if good(status.actors) else None

        return {peer.pid for peer in until(look, "actors as expected")}

    def no_launcher(self) -> bool:
        status = self.status()
        return status is not None and not status.launchers

    def units(self, user: str) -> list[str]:
        """Transient units of the person's manager, or of the system's."""
        manager = ("--user", f"--machine={user}@") if user != "root" else ()
        return self.host.run(
            "systemctl", *manager, "list-units", "--plain", "--no-legend", f"a3cd-lab-{user}-*"
        ).splitlines()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("not installed: openssh-server, openssh-client")
    with prepared("box") as host:
        yield Lab(host)


def two_at_work(peers: list[PeerStatus]) -> bool:
    return len(peers) == 2 and all(peer.gradients for peer in peers)


@pytest.mark.parametrize("user", ["root", "ann"])
def test_units_outlive_the_launcher_are_found_again_and_end_with_it(lab: Lab, user: str) -> None:
    if user == "root":
        lab.invite("root", "/root")
    else:
        lab.host.run("useradd", "--create-home", "--password", "*", user)
        lab.host.run("loginctl", "enable-linger", user)
        lab.invite(user, f"/home/{user}")
    lab.launcher(user)
    before = lab.actors(two_at_work)
    assert len(lab.units(user)) == 2
    lab.end_launcher("TERM")
    until(lab.no_launcher, "no launcher")
    lab.launcher(user)
    assert lab.actors(two_at_work) == before, "found, and none doubled"
    assert len(lab.units(user)) == 2

    killed = min(before)
    lab.host.run("kill", "-KILL", killed)
    after = lab.actors(lambda peers: two_at_work(peers) and killed not in {peer.pid for peer in peers})
    assert after & before == before - {killed}, "systemd started it again"

    lab.end_launcher("INT")
    until(lambda: lab.units(user) == [], "no unit left")
