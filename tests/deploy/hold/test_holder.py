"""In this process and on this thread: turns are taken by hand; actors are sleepers."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.hold import folder as folders
from deploy.hold import holder as module
from deploy.hold.holder import Holder, command
from deploy.hold.messages import (
    PROTOCOL,
    AnyLine,
    Gone,
    Greeting,
    Holding,
    Lines,
    Ping,
    Refused,
    Start,
    Started,
    Stop,
    encode,
)
from tests.helpers.programs import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
GREETING = Greeting(PROTOCOL, "lab", "tcp://x:1")


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = module.time.monotonic()
        self.script = SLEEPS
        self.listener = folders.listen(folder)
        self.holder = Holder(self.listener, lambda greeting, name: [sys.executable, "-c", self.script])
        self.clients: list[Client] = []

    def turn(self) -> None:
        for key, _ in self.holder._selector.select(0):
            if key.fileobj is self.listener:
                self.holder._accept()
            else:
                self.holder._read(key.data)
        self.holder._reap()

    def over(self) -> bool:
        return self.holder._over(self.now)

    def client(self, greeting: Greeting | None = GREETING) -> Client:
        self.clients.append(Client(self))
        if greeting is not None:
            self.clients[-1].say(greeting)
        return self.clients[-1]


class Client:
    def __init__(self, house: House) -> None:
        self.house = house
        connection = folders.connect(house.folder)
        assert connection is not None
        self.socket = connection
        self.socket.setblocking(False)
        self.lines = Lines()
        self.heard: list[AnyLine] = []
        self.closed = False

    def say(self, line: AnyLine | bytes) -> None:
        self.socket.sendall(line if isinstance(line, bytes) else encode(line))

    def hear(self, count: int = 1) -> list[AnyLine]:
        until(lambda: self._take() or len(self.heard) >= count, f"{count} lines")
        heard, self.heard = self.heard[:count], self.heard[count:]
        return heard

    def wait_closed(self) -> None:
        until(lambda: self._take() or self.closed, "the end")

    def _take(self) -> None:
        self.house.turn()
        try:
            raw = self.socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            raw = b""
        self.closed = not raw
        self.heard += self.lines.feed(raw)


@pytest.fixture
def house(nothing_left_behind: None) -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="a3cd-") as name:
        one = House(Path(name))
        yield one
        for client in one.clients:
            client.socket.close()
        one.holder.close()
        one.listener.close()


def test_start_stop_and_how_it_ended(house: House) -> None:
    client = house.client()
    assert client.hear() == [Holding([])]
    client.say(encode(Start(2, "a")) + encode(Start(2, "a")) + encode(Ping()))
    assert client.hear(3) == [Started(2), Started(2), Ping()]
    until(lambda: house.turn() or house.holder._backend._children[2].last_lines)
    client.say(Stop(2))
    assert client.hear() == [Gone(2, 143, "up")]
    client.say(Stop(2, kill=True))
    assert not house.over()


def test_one_that_cannot_run(house: House) -> None:
    house.script = "import sys; sys.exit('x' * 1000 + 'no environment')"
    client = house.client()
    client.say(Start(0, "a"))
    _, _, gone = client.hear(3)
    assert isinstance(gone, Gone)
    assert gone.exit_code == 1
    assert gone.last_words.endswith("xno environment")
    assert len(gone.last_words) == 300


def test_who_comes_back_is_told_what_runs_and_what_ended(house: House) -> None:
    first = house.client()
    first.say(encode(Start(0, "a")) + encode(Start(1, "b")))
    first.hear(3)
    first.socket.close()
    until(lambda: house.turn() or house.holder._launcher is None)
    house.holder._backend.stop(1, kill=True)
    until(lambda: house.turn() or house.holder._backend.running == {0})
    second = house.client()
    (holding,) = second.hear()
    assert isinstance(holding, Holding)
    assert (holding.running, [(end.slot, end.exit_code) for end in holding.gone]) == ([0], [(1, 137)])
    second.say(Start(1, "b"))
    second.hear()
    third = house.client()
    assert third.hear() == [Holding([0, 1])]


def test_the_newest_connection_is_the_launchers(house: House) -> None:
    first = house.client()
    first.hear()
    second = house.client()
    assert second.hear() == [Holding([])]
    (refused,) = first.hear()
    assert isinstance(refused, Refused)
    assert "another launcher of the same name took over" in refused.why
    first.wait_closed()
    second.say(Ping())
    assert second.hear() == [Ping()]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"nonsense\n", "no line of a holder"),
        (encode(Greeting(PROTOCOL + 1, "lab", "x")), f"speaks protocol {PROTOCOL}, the launcher {PROTOCOL + 1}"),
    ],
)
def test_who_talks_otherwise_is_refused_and_dropped(house: House, said: bytes, why: str) -> None:
    client = house.client(None)
    client.say(said)
    (refused,) = client.hear()
    assert isinstance(refused, Refused)
    assert why in refused.why
    client.wait_closed()


def test_who_has_not_greeted_moves_nothing(house: House) -> None:
    client = house.client(None)
    client.say(Start(0, "a"))
    until(lambda: house.turn() or not house.holder._selector.select(0))
    assert house.holder._backend.running == set()


def test_it_ends_when_there_is_nothing_to_hold_and_nobody_to_hold_it_for(house: House) -> None:
    house.now += module.IDLE_SECONDS - 1
    assert not house.over()
    house.now += 2
    assert house.over()
    client = house.client()
    client.hear()
    assert not house.over(), "a launcher is there"


def test_after_the_lease_the_actors_are_ended(house: House) -> None:
    client = house.client(Greeting(PROTOCOL, "lab", "x", lease_seconds=600.0))
    client.say(Start(0, "a"))
    client.hear(2)
    client.socket.close()
    until(lambda: house.turn() or house.holder._launcher is None)
    house.now += 590
    assert not house.over()
    house.now += 20
    assert not house.over(), "it was asked to leave"
    until(lambda: house.turn() or not house.holder._backend.running)
    assert house.over()


def test_a_launcher_that_is_connected_and_silent_loses_its_lease_too(house: House) -> None:
    client = house.client()
    client.say(Start(0, "a"))
    client.hear(2)
    house.now += 601
    assert not house.over()
    until(lambda: house.turn() or not house.holder._backend.running)
    assert house.over()


def test_the_command_of_an_actor() -> None:
    words = command(Greeting(PROTOCOL, "lab", "tcp://x:1", ["--nice", "10"]), "lab-h2-0")
    expected = ["actor", "tcp://x:1", "--nice", "10", "--name", "lab-h2-0", "--launcher", "lab", "--lifeline"]
    assert words[-len(expected) :] == expected


def test_a_client_that_reads_nothing_is_dropped(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEND_SECONDS", 0.01)
    client = house.client()
    client.hear()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    launcher = house.holder._launcher
    assert launcher is not None
    while house.holder._launcher is launcher:
        house.holder._say(launcher, Gone(0, 1, "x" * 10_000))
