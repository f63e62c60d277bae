from __future__ import annotations

import pytest

from deploy.backends.process import ProcessBackend
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import SystemdBackend
from tests.helpers.command_line import AT, Stand, a3cd


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """In the place of the daemon."""
    one = Stand(75)
    monkeypatch.setattr("deploy.launcher.shell.run", one)
    return one


def test_where_actors_may_run(run: Stand) -> None:
    result = a3cd("launcher", "localhost", "--start-with", "ssh", "--host", "ann@h2:4", "--host", "h3:2", "--name", "x")
    assert result.exit_code == 75
    access, places = run.arguments
    assert access == AT
    assert [(type(place.backend), place.slots, place.name) for place in places] == [
        (SshBackend, 4, "h2"),
        (SshBackend, 2, "h3"),
    ]
    assert run.options == {"name": "x", "prestart": 0}
    a3cd("launcher", "localhost", "--start-with", "systemd", "--slots", 2, "--user")
    _, (place,) = run.arguments
    assert (type(place.backend), place.slots) == (SystemdBackend, 2)
    a3cd("launcher", "localhost", "--slots", 3, "--prestart", 2)
    _, (place,) = run.arguments
    assert isinstance(place.backend, ProcessBackend)
    assert run.options["prestart"] == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "h2"], "--host belongs to --start-with ssh, not to process"),
        (["--start-with", "command", "--slots", "2"], "needs --command"),
        (["--start-with", "ssh"], "needs --host"),
        (["--start-with", "systemd"], "--slots N says how many actors may run"),
    ],
)
def test_misused(run: Stand, arguments: list[str], text: str) -> None:
    result = a3cd("launcher", "localhost", *arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert run.arguments == ()
