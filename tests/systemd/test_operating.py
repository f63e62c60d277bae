"""The operator's page: two machines, nothing but Python on them (and its packages), and exactly the page's commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tests.systemd.conftest import prepared
from tests.systemd.login import ssh_to
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]
PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
LEARNER, PEER = "gpu-box", "lab-01"
ADDRESSES = {LEARNER: "10.78.0.1", PEER: "10.78.0.2"}


def commands() -> list[str]:
    """Of the page's block between its markers; comments are the reader's."""
    found = re.search(r"<!-- commands -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    lines = (line.strip().partition("  #")[0].rstrip() for line in found[1].splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def machines() -> Iterator[dict[str, Machine]]:
    """With a cable between them."""
    with ExitStack() as stack:
        both = {name: stack.enter_context(prepared(name)) for name in ADDRESSES}
        ends = [f"netns {machine.leader}" for machine in both.values()]
        subprocess.run(f"ip link add cable {ends[0]} type veth peer name cable {ends[1]}".split(), check=True)
        for name, machine in both.items():
            machine.run("ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", "cable")
            machine.run("ip", "link", "set", "cable", "up")
            with (machine.root / "etc/hosts").open("a") as hosts:
                hosts.writelines(f"{address} {other}\n" for other, address in ADDRESSES.items() if other != name)
        yield both


def test_there_are_eight() -> None:
    assert len(commands()) == 8


@pytest.mark.long
def test_they_lead_to_a_hardened_deployment_that_trains(machines: dict[str, Machine], tmp_path: Path) -> None:
    config = ssh_to(tmp_path, *machines.values())
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    (programs / "a3cd").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m deploy.cli.command "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    said: dict[str, str] = {}

    def run(command: str) -> bool:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        said[command] = done.stdout + done.stderr
        return done.returncode == 0

    for command in commands():
        # Those that only look may come too early for what has just been started.
        if " status " in command or " doctor " in command:
            until(lambda command=command: run(command), command)  # type: ignore[misc]
        else:
            assert run(command), f"{command}: {said[command]}"

    look = next(command for command in commands() if "a3cd status" in command)
    until(lambda: run(look) and f"{PEER}/" in said[look], "actors of the other machine in the run")
    for name, unit in ((LEARNER, "a3cd-learner@cartpole.service"), (PEER, "a3cd-launcher.service")):
        score = machines[name].run("systemd-analyze", "security", "--threshold=20", unit, check=False)
        assert "OK" in score.splitlines()[-1], score
