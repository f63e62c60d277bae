"""The units of a person who is not root, under that person's own systemd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from common.host.addresses import Address
from common.run.status import RunStatus
from deploy.backends.hosts import parse
from deploy.install import roles
from deploy.install.payload import USER, Payload
from deploy.install.target import SshTarget
from tests.helpers.waiting import until
from tests.systemd.conftest import prepared
from tests.systemd.machine import Machine
from tests.systemd.service import PYTHON, SETTINGS, take

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(300)]
AT = Address("127.0.0.1", 5555)
HOME = "/home/someone"
UNITS = ("a3cd-learner@cartpole.service", "a3cd-launcher.service", "a3cd-actor@0.service", "a3cd-actor@1.service")


class Person:
    """Someone on a machine, with a manager that runs without a login."""

    def __init__(self, host: Machine) -> None:
        host.run("useradd", "--home-dir", HOME, "someone")
        host.run("chown", "--recursive", "someone:", HOME)
        host.run("loginctl", "enable-linger", "someone")
        runtime = f"/run/user/{host.run('id', '-u', 'someone').strip()}"
        until(lambda: "systemd" in host.run("ls", runtime, check=False), "the person's manager is up")
        self.host = host
        self._as = ("runuser", "-u", "someone", "--", "env", f"HOME={HOME}", f"XDG_RUNTIME_DIR={runtime}")
        self.target = SshTarget(parse("someone@box"), (*host.prefix(), *self._as, "sh", "-c"), PYTHON)

    def run(self, *words: object, check: bool = True) -> str:
        """What a command says."""
        return self.host.run(*self._as, *words, check=check)

    def take(self, one: Payload) -> list[str]:
        """What was due, and is done."""
        return take(self.target, one)

    def training(self) -> RunStatus:
        """Once two actors send gradients."""

        def look() -> RunStatus | None:
            said = self.run(f"{HOME}/.local/share/a3cd/bin/a3cd", "status", AT, "--json", "--timeout", 2, check=False)
            now = msgspec.json.decode(said, type=RunStatus) if said else None
            return now if now and sum(1 for peer in now.actors if peer.frames_per_second) == 2 else None

        return until(look, "two actors that train")

    def pids(self) -> list[str]:
        """Of the units' processes."""
        return [
            self.run("systemctl", "--user", "show", "--property=MainPID", "--value", unit).strip() for unit in UNITS
        ]


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    with prepared("box", f"{HOME}/.local/share/a3cd") as host:
        yield Person(host)


def test_a_person_deploys_trains_and_removes(person: Person, wheels: tuple[Path, ...]) -> None:
    learner = roles.learner(USER, wheels, "cartpole", SETTINGS, AT)
    launcher = roles.peers("launcher", USER, wheels, AT, slots=2)
    assert person.take(learner)
    assert person.take(launcher)
    person.training()
    assert person.take(learner) == person.take(launcher) == []

    learner_pid, launcher_pid, *actors = person.pids()
    person.run("systemctl", "--user", "restart", UNITS[1])
    person.training()
    now = person.pids()
    assert (now[0], now[2:]) == (learner_pid, actors), "actors outlive their launcher"
    assert now[1] != launcher_pid

    person.take(Payload("remove", USER))
    assert person.run("systemctl", "--user", "list-units", "--plain", "--no-legend", "a3cd*") == ""
