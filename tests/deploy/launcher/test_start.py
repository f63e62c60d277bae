from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from common.addresses import Address
from deploy.backends.process import ProcessBackend
from deploy.launcher import start as module
from deploy.launcher.start import start

AT = Address("gpu-box", 5555)


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the shell is given; the backend is closed."""
    given: dict[str, Any] = {}

    def run(address: Address, **options: Any) -> int:
        given.update(options, address=address)
        options["backend"].close()
        return 75

    monkeypatch.setattr(module, "run", run)
    return given


def test_actors_as_processes(handed_on: dict[str, Any]) -> None:
    assert start(AT, slots=4, start_with="process", name="here", warm=2) == 75
    backend = handed_on.pop("backend")
    assert handed_on == {"address": AT, "slots": 4, "name": "here", "warm": 2}
    assert isinstance(backend, ProcessBackend)
    assert backend._name(3) == "here-3"
    assert backend._command(3) == [
        *(sys.executable, "-P", "-m", "deploy.command", "actor", "tcp://gpu-box:5555", "--name", "here-3"),
        *("--launcher", "here", "--lifeline"),
    ]


def test_a_name_of_its_own(handed_on: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab")
    start(AT, slots=1, start_with="process", name="", warm=0)
    assert handed_on["name"] == f"lab-{os.getpid()}"
    monkeypatch.setattr("platform.node", lambda: "")
    start(AT, slots=1, start_with="process", name="", warm=0)
    assert handed_on["name"] == f"launcher-{os.getpid()}"


def test_an_unknown_way_to_start(handed_on: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'carrier pigeon'"):
        start(AT, slots=1, start_with="carrier pigeon", name="", warm=0)
