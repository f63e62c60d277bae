"""The relay as ssh runs it; whole ways from launcher to actor are in tests/deploy/backends/test_ssh.py."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from deploy.hold.messages import PROTOCOL, AnyLine, Greeting, Holding, Ping, Refused, Start, Started, decode, encode
from tests.helpers.programs import alive, until
from tests.helpers.remote import Remote, remote

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
Open = Callable[..., "Link"]
GREETING = Greeting(PROTOCOL, "lab", "tcp://x:1")


class Link:
    """A relay, and its two ends."""

    def __init__(self, lab: Remote) -> None:
        ssh = lab.base / "bin" / "ssh"
        self.process = subprocess.Popen(
            [sys.executable, str(ssh), "--", "h2", "a3cd", "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def say(self, line: AnyLine) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(line))
        self.process.stdin.flush()

    def hear(self) -> AnyLine | None:
        assert self.process.stdout is not None
        raw = self.process.stdout.readline()
        return decode(raw) if raw else None

    def close(self) -> int:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            return self.process.wait(30)


@pytest.fixture
def lab(nothing_left_behind: None) -> Iterator[Remote]:
    with remote("h2") as one:
        yield one


def test_the_holder_lives_on_without_the_relay_and_is_found_again(lab: Remote) -> None:
    first = Link(lab)
    first.say(GREETING)
    assert first.hear() == Holding([])
    first.say(Start(0, "a"))
    assert first.hear() == Started(0)
    assert first.close() == 0
    second = Link(lab)
    second.say(GREETING)
    assert second.hear() == Holding([0])
    second.process.send_signal(signal.SIGKILL)
    assert second.close() == -signal.SIGKILL
    assert len(lab.holders("h2")) == 1
    until(lambda: lab.count() == 1)


def test_without_actors_and_launcher_the_holder_ends(lab: Remote) -> None:
    link = Link(lab)
    link.say(GREETING)
    assert link.hear() == Holding([])
    link.close()
    until(lambda: not alive(lab.holders("h2")[0]))


def test_relays_at_the_same_time_find_one_holder(lab: Remote) -> None:
    links = [Link(lab) for _ in range(4)]
    for link in links:
        link.say(GREETING)
    answers = [link.hear() for link in links]
    assert answers == [Holding([])] * 4
    assert sum(link.close() == 0 for link in links) == 4
    assert len(lab.holders("h2")) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (Ping(), "a launcher begins with a greeting"),
        (Greeting(PROTOCOL + 1, "lab", "x"), f"the a3cd here speaks protocol {PROTOCOL} of `hold`"),
    ],
)
def test_who_begins_otherwise_is_refused(lab: Remote, line: AnyLine, why: str) -> None:
    link = Link(lab)
    link.say(line)
    answer = link.hear()
    assert isinstance(answer, Refused)
    assert answer.why.startswith(why)
    assert link.close() == 78
    assert lab.holders("h2") == []


def test_silence_is_no_greeting(lab: Remote) -> None:
    link = Link(lab)
    assert link.process.communicate(timeout=30)[0].startswith(b'{"type":"refused"')
    assert link.process.returncode == 78
