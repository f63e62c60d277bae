"""a3cd on a machine: deployed, asked how it does, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from common.host.addresses import Address
from common.run.status import RunStatus
from deploy.backends.hosts import parse
from deploy.install import roles
from deploy.install.payload import SYSTEM, Payload
from deploy.install.target import SshTarget
from tests.helpers.waiting import until
from tests.systemd.machine import Machine

LEARNER = "a3cd-learner@cartpole.service"
LAUNCHER = "a3cd-launcher.service"
ACTORS = ("a3cd-actor@0.service", "a3cd-actor@1.service")
AT = Address("127.0.0.1", 5555)
PYTHON = "/usr/bin/python3"
SETTINGS = b"""
[environment]
id = "CartPole-v1"
num_envs = 4
step_seconds = 0.005  # leaves the processor to whoever else is tested on it
reward_scale = 0.1
[scaling]
policy = "fixed"
minimum = 2
maximum = 2
"""


def take(target: SshTarget, one: Payload) -> list[str]:
    """Brings a host to the state of a payload; what was due."""
    due = list(target.apply(one))
    if due:
        list(target.apply(one, due))
    return due


class Service:
    """A learner of CartPole, a launcher, two actors."""

    def __init__(self, host: Machine, wheels: tuple[Path, ...], at: Address = AT) -> None:
        """Nothing is deployed yet; `at` is where the learner is, for its peers."""
        self.host, self._wheels, self.at = host, wheels, at
        self.target = SshTarget(parse(host.name), (*host.prefix(), "sh", "-c"), PYTHON)

    def deploy_learner(self) -> list[str]:
        """What was due."""
        return take(self.target, roles.learner(SYSTEM, self._wheels, "cartpole", SETTINGS, self.at))

    def deploy_launcher(self) -> list[str]:
        """What was due."""
        return take(self.target, roles.peers("launcher", SYSTEM, self._wheels, self.at, slots=2))

    def status(self) -> RunStatus | None:
        """Of the run; None while its learner does not answer."""
        said = self.host.run(SYSTEM.a3cd, "status", self.at, "--json", "--timeout", 2, check=False)
        return msgspec.json.decode(said, type=RunStatus) if said else None

    def training(self, good: Callable[[RunStatus], object] = lambda _: True) -> RunStatus:
        """Once the two actors that systemd has send gradients, and `good` holds."""
        before: list[RunStatus] = []

        def look() -> RunStatus | None:
            now = self.status()
            if now is None or not self.actors() <= {peer.pid for peer in now.actors if peer.frames_per_second}:
                return None
            before.append(now)
            grows = (now.epoch, now.frames) > (before[0].epoch, before[0].frames)
            return now if grows and good(now) else None

        return until(look, "two actors that train")

    def actors(self) -> set[int]:
        """Their processes; 0 is one that is not there."""
        return {self.pid(unit) for unit in ACTORS}

    def pid(self, unit: str) -> int:
        """Of its main process; 0: there is none."""
        return int(self.host.show(unit, "MainPID")["MainPID"])

    def restarted(self, unit: str, before: int) -> int:
        """The new process of a unit, once it is ready."""

        def look() -> int:
            shown = self.host.show(unit, "MainPID", "ActiveState")
            pid = int(shown["MainPID"])
            return pid if shown["ActiveState"] == "active" and pid not in (0, before) else 0

        return until(look, f"{unit} is started again")
