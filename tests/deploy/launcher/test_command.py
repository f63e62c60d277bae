from __future__ import annotations

from typing import Any

import pytest

from deploy.backends.hosts import Host
from deploy.launcher.options import Options
from tests.helpers.command_line import AT, Stand, a3cd


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Stand:
    one = Stand(75)
    monkeypatch.setattr("deploy.launcher.start.start", one)
    return one


def test_each_way(start: Stand) -> None:
    result = a3cd("launcher", "localhost", "--start-with", "ssh", "--host", "ann@h2:4", "--host", "h3:2", "--name", "x")
    assert result.exit_code == 75
    assert start.arguments == (AT,)
    hosts = (Host("ann@h2", 4), Host("h3", 2))
    assert start.options == {
        "slots": 6,
        "start_with": "ssh",
        "name": "x",
        "warm": 0,
        "modules": (),
        "options": Options(hosts=hosts),
    }
    a3cd("launcher", "localhost", "--start-with", "systemd", "--slots", 2, "--user")
    assert start.options["options"] == Options(user=True)
    a3cd("launcher", "localhost", "--start-with", "slurm", "--slots", 2, "--sbatch-option", "partition=cpu")
    assert start.options["options"] == Options(sbatch_options=("partition=cpu",))
    a3cd("launcher", "localhost", "--start-with", "command", "--slots", 2, "--command", "scale {count}")
    assert start.options["options"] == Options(command=("scale", "{count}"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "h2"], "--host belongs to --start-with ssh, not to process"),
        (["--user"], "--user belongs to --start-with systemd, not to process"),
        (["--start-with", "ssh", "--host", "h2:1", "--unit", "x@"], "--unit belongs to --start-with systemd, not"),
        (["--start-with", "systemd", "--remote", "a3cd"], "--remote belongs to --start-with ssh or slurm, not"),
        (["--start-with", "systemd", "--allow-module", "x"], "--allow-module belongs to --start-with process"),
        (["--start-with", "command"], "needs --command"),
        (["--start-with", "ssh"], "needs --host"),
    ],
)  # fmt: skip
def test_options_of_another_way_are_refused(start: Stand, arguments: list[Any], text: str) -> None:
    result = a3cd("launcher", "localhost", "--slots", 2, *arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert start.arguments == ()


def test_slots_have_to_be_said(start: Stand) -> None:
    result = a3cd("launcher", "localhost", "--start-with", "systemd")
    assert result.exit_code == 2
    assert "--slots N says how many actors may run" in result.output
