from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.host.service.notify import Notifier, inherited

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Manager:
    """The service manager's end."""

    def __init__(self, address: str, name: str) -> None:
        self.environ = {"NOTIFY_SOCKET": name}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(5)

    def hears(self) -> str:
        return self.socket.recv(4096).decode()


def test_children_are_not_told_what_is_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    for name in names:
        monkeypatch.setenv(name, "1")
    assert inherited() == before


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    if request.param == "path":
        path = str(tmp_path / "notify")
        listening = Manager(path, path)
    else:
        name = f"a3cd-test-{os.getpid()}"
        listening = Manager(f"\0{name}", f"@{name}")
    yield listening
    listening.socket.close()


def test_states(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.ready("waiting")
    assert manager.hears() == "READY=1\nSTATUS=waiting"
    notifier.status("two\nREADY=0")
    assert manager.hears() == "STATUS=two | READY=0"
    notifier.stopping("bye")
    assert manager.hears() == "STOPPING=1\nSTATUS=bye"


def test_watchdog_twice_per_interval(manager: Manager) -> None:
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())})
    assert notifier.deadline == 0.0, "a poller's timeout is made of it, and must be finite"
    notifier.ready()
    manager.hears()
    notifier.watchdog(100.0)
    assert manager.hears() == "WATCHDOG=1"
    assert notifier.deadline == 102.0
    notifier.watchdog(101.9)
    notifier.status("nothing in between")
    assert manager.hears() == "STATUS=nothing in between"
    notifier.watchdog(102.0)
    assert manager.hears() == "WATCHDOG=1"


@pytest.mark.parametrize("done", ["ready", "stopping"])
def test_more_time_to_start_until_it_has(manager: Manager, done: str) -> None:
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": "4000000"})
    for now in (0.0, 2.0):
        notifier.watchdog(now)
        assert manager.hears() == "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=4000000"
    getattr(notifier, done)()
    manager.hears()
    notifier.watchdog(4.0)
    assert manager.hears() == "WATCHDOG=1"


@pytest.mark.parametrize(
    "environ",
    [{}, {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}],
)
def test_no_watchdog(environ: dict[str, str]) -> None:
    assert Notifier(environ).deadline == math.inf


def test_silent_where_nobody_listens(tmp_path: Path) -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
