"""With programs in the place of ssh; what goes over a real relay is in test_ssh."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from deploy.backends.connection import SILENT_SECONDS, Connection
from deploy.hold.messages import PROTOCOL, AnyLine, Greeting, Holding, Ping, encode
from tests.helpers.programs import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
ECHO = (
    'import sys\nsys.stdin.readline()\nprint(\'{"type":"holding","running":[1]}\', flush=True)\n'
    "for line in sys.stdin: print(line, end='', flush=True)"
)


class Ear:
    def __init__(self) -> None:
        self.heard: list[AnyLine] = []
        self.lost = threading.Semaphore(0)


Make = Callable[[str], tuple[Connection, Ear]]


@pytest.fixture
def make(nothing_left_behind: None) -> Iterator[Make]:
    made: list[Connection] = []

    def connect(script: str) -> tuple[Connection, Ear]:
        ear = Ear()
        command = [sys.executable, "-c", script, "a3cd", "hold"]
        connection = Connection(command, Greeting(PROTOCOL, "lab", "tcp://x:1"), ear.heard.append, ear.lost.release)
        made.append(connection)
        connection.start()
        connection.start()
        return connection, ear

    yield connect
    for one in made:
        one.leave()
        one.close(5)


def test_lines_both_ways(make: Make) -> None:
    connection, ear = make(ECHO)
    until(lambda: ear.heard == [Holding([1])])
    assert (connection.tried, connection.trouble) == (True, "")
    connection.send(Ping())
    until(lambda: ear.heard[1:] == [Ping()])


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import sys; print('x\\nann@h2: Permission denied (publickey).', file=sys.stderr); sys.exit(255)",
         "ssh: ann@h2: Permission denied (publickey)."),
        ("import sys; print('sh: 1: a3cd: not found', file=sys.stderr); sys.exit(127)",
         "a3cd hold: sh: 1: a3cd: not found (exit code 127)"),
        ("", "ssh: the connection broke"),
        ("print('Welcome to the lab!')", "does the login there print something?"),
        ("print('{\"type\":\"refused\",\"why\":\"protocol 1 here\"}')", "protocol 1 here"),
    ],
)  # fmt: skip
def test_why_there_is_none(make: Make, script: str, why: str) -> None:
    connection, ear = make(script)
    assert ear.lost.acquire(timeout=30)
    until(lambda: connection.tried)
    assert connection.trouble.endswith(why)
    assert ear.heard == []
    connection.send(Ping())


def test_it_is_made_again_after_it_broke(make: Make) -> None:
    connection, ear = make(ECHO)
    until(lambda: ear.heard)
    assert connection._process is not None
    connection._process.kill()
    assert ear.lost.acquire(timeout=30)
    until(lambda: ear.heard == [Holding([1])] * 2)
    assert connection.trouble == ""


def test_one_that_says_nothing_is_given_up(make: Make) -> None:
    connection, ear = make("import time; time.sleep(60)")
    until(lambda: connection._process is not None)
    connection.check(time.monotonic())
    assert not ear.lost.acquire(blocking=False)
    connection.check(time.monotonic() + SILENT_SECONDS + 1)
    assert ear.lost.acquire(timeout=30)


def test_one_that_takes_nothing_is_given_up(make: Make) -> None:
    connection, ear = make("import time; time.sleep(60)")
    until(lambda: connection._process is not None)
    for _ in range(2**17 // len(encode(Ping()))):  # a pipe holds half of that
        connection.send(Ping())
    assert ear.lost.acquire(timeout=30)
