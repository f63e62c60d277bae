from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from deploy.backends.base import Backend
from deploy.backends.command import CommandBackend
from deploy.backends.hosts import Host
from deploy.backends.process import ProcessBackend
from deploy.backends.slurm import SlurmBackend
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from deploy.launcher import start as module
from deploy.launcher.options import Options
from deploy.launcher.start import start

AT = LearnerEndpoint(Address("gpu-box", 5555), source=Path("/keys/c"), insecure=True)


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the shell is given; the backend is closed."""
    given: dict[str, Any] = {}

    def run(access: LearnerEndpoint, **options: Any) -> int:
        given.update(options, access=access)
        options["backend"].close()
        return 75

    monkeypatch.setattr(module, "run", run)
    return given


def test_actors_as_processes(handed_on: dict[str, Any]) -> None:
    assert start(AT, slots=4, start_with="process", name="here", warm=2, modules=["games"]) == 75
    backend = handed_on.pop("backend")
    assert handed_on == {"access": AT, "slots": 4, "name": "here", "warm": 2}
    assert isinstance(backend, ProcessBackend)
    assert backend._name(3) == "here-3"
    assert backend._command(3) == [
        *(sys.executable, "-P", "-m", "deploy.cli.command", "actor", "tcp://gpu-box:5555", "--credential", "/keys/c"),
        *("--insecure", "--nice", "10", "--allow-module", "games"),
        *("--name", "here-3", "--launcher", "here", "--lifeline"),
    ]


@pytest.mark.parametrize(
    ("way", "kind"),
    [("systemd", SystemdBackend), ("ssh", SshBackend), ("slurm", SlurmBackend), ("command", CommandBackend)],
)
def test_the_other_ways(handed_on: dict[str, Any], way: str, kind: type[Backend]) -> None:
    options = Options(hosts=(Host("ann@h2", 2), Host("h3", 2)), command=("scale", "{count}"))
    start(AT, slots=4, start_with=way, name="", warm=0, options=options)
    assert isinstance(handed_on["backend"], kind)
    assert handed_on["backend"].outlives


def test_hosts_are_told_the_address_and_not_where_a_credential_is_here(handed_on: dict[str, Any]) -> None:
    options = Options(hosts=(Host("h2", 2), Host("h3", 1)), remote="/opt/a3cd/bin/a3cd")
    start(AT, slots=3, start_with="ssh", name="lab", warm=0, options=options)
    backend = handed_on["backend"]
    greeting = backend._connections[0]._greeting
    assert (greeting.launcher, greeting.learner) == ("lab", "tcp://gpu-box:5555")
    assert greeting.options == ["--insecure", "--nice", "10"]
    assert backend._connections[1]._command[-4:] == ["--", "h3", "/opt/a3cd/bin/a3cd", "hold"]
    assert [backend.host(slot) for slot in range(3)] == ["h2", "h3", "h2"]


def test_the_tasks_of_slurm_run_this_a3cd(handed_on: dict[str, Any]) -> None:
    start(AT, slots=3, start_with="slurm", name="lab", warm=0)
    assert str(Path(sys.executable).with_name("a3cd")) in handed_on["backend"]._script
    start(AT, slots=3, start_with="slurm", name="lab", warm=0, options=Options(remote="/x/a3cd"))
    assert "exec /x/a3cd actor tcp://gpu-box:5555 --credential /keys/c" in handed_on["backend"]._script


def test_a_name_of_its_own_that_stays_where_actors_do(
    handed_on: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab")
    start(AT, slots=1, start_with="process", name="", warm=0)
    assert handed_on["name"] == f"lab-{os.getpid()}"
    start(AT, slots=1, start_with="systemd", name="", warm=0)
    assert handed_on["name"] == "lab"
    monkeypatch.setattr("platform.node", lambda: "")
    start(AT, slots=1, start_with="process", name="", warm=0)
    assert handed_on["name"] == f"launcher-{os.getpid()}"


def test_an_unknown_way_to_start(handed_on: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'carrier pigeon'"):
        start(AT, slots=1, start_with="carrier pigeon", name="", warm=0)
