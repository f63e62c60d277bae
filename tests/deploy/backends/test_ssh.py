"""Against relays and holders that really run; only ssh itself is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from common.errors import ConfigurationError
from deploy.backends import ssh
from deploy.backends.base import Ended, Found
from deploy.backends.hosts import Host
from deploy.backends.ssh import FIXED, SshBackend, check_option, check_program, ssh_command
from tests.helpers.programs import alive, until
from tests.helpers.remote import Remote, remote

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
Make = Callable[..., SshBackend]
HOSTS = [Host("h2", 2), Host("ann@h3", 2)]


@pytest.fixture
def lab(nothing_left_behind: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    with remote("h2", "ann@h3") as one:
        monkeypatch.setenv("PATH", one.path)
        yield one


@pytest.fixture
def make(lab: Remote) -> Iterator[Make]:
    made: list[SshBackend] = []

    def backend(launcher: str = "lab", lease: float = 600.0, hosts: list[Host] = HOSTS) -> SshBackend:
        made.append(SshBackend(hosts, launcher=launcher, way=["tcp://gpu:5555"], lease_seconds=lease))
        return made[-1]

    yield backend
    for one in made:
        one.close()


def settle(backend: SshBackend) -> list[Ended | Found]:
    """Until each host was tried; what came up until then."""
    news: list[Ended | Found] = []
    until(lambda: news.extend(backend.poll()) or backend.condition.settled, "the hosts")
    return news


def news_of(backend: SshBackend, count: int = 1) -> list[Ended | Found]:
    news: list[Ended | Found] = []
    until(lambda: news.extend(backend.poll()) or len(news) >= count, "news")
    return news


def break_connection(backend: SshBackend, index: int) -> None:
    process = backend._connections[index]._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)


def test_actors_on_two_hosts(make: Make, lab: Remote) -> None:
    backend = make()
    assert backend.condition.settled is False
    assert backend.condition.ready == frozenset()
    assert settle(backend) == []
    assert backend.condition.ready == {0, 1, 2, 3}
    for slot in range(3):
        backend.start(slot)
    until(lambda: lab.count() == 3 and not (backend.poll() or backend.condition.starting))
    assert sorted(lab.actors("h2")) == ["lab-h2-0", "lab-h2-1"]
    assert sorted(lab.actors("ann@h3")) == ["lab-h3-0"]
    assert backend.running == {0, 1, 2}
    backend.stop(1)
    assert news_of(backend) == [Ended(1, 143, "at work")]
    os.kill(lab.actors("h2")["lab-h2-1"][0], signal.SIGKILL)
    assert news_of(backend) == [Ended(2, 137, "at work")]
    assert backend.running == {0}


def test_a_launcher_that_comes_back_finds_the_actors_and_doubles_none(make: Make, lab: Remote) -> None:
    first = make()
    settle(first)
    first.start(0)
    first.start(1)
    until(lambda: lab.count() == 2)
    before = lab.actors("h2"), lab.actors("ann@h3")
    first.close()
    second = make()
    assert sorted(settle(second), key=lambda one: one.slot) == [Found(0), Found(1)]
    second.start(0)
    second.stop(1)
    assert news_of(second) == [Ended(1, 143, "at work")]
    assert (lab.actors("h2"), lab.actors("ann@h3")) == (before[0], {})


def test_a_broken_connection_is_made_again_and_tells_what_happened_meanwhile(make: Make, lab: Remote) -> None:
    backend = make()
    settle(backend)
    backend.start(0)
    backend.start(2)
    until(lambda: lab.count() == 2 and not (backend.poll() or backend.condition.starting))
    before = lab.actors("h2")
    (lab.base / "h2" / "denied").touch()
    break_connection(backend, 0)
    until(lambda: "h2" in backend.condition.trouble)
    assert backend.condition.ready == {1, 3}
    assert backend.running == {0, 2}, "they play on"
    until(lambda: backend.condition.trouble == "h2: ssh: h2: Permission denied (publickey).")
    os.kill(before["lab-h2-1"][0], signal.SIGKILL)
    backend.stop(0)
    (lab.base / "h2" / "denied").unlink()
    ended = news_of(backend, 2)
    assert sorted(ended, key=lambda one: one.slot) == [Ended(0, 143, "at work"), Ended(2, 137, "at work")]
    assert backend.condition.trouble == ""
    assert lab.count() == 0


def test_a_start_into_a_dead_connection_comes_through_once(make: Make, lab: Remote) -> None:
    backend = make()
    settle(backend)
    process = backend._connections[0]._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    backend.start(0)
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: lab.count() == 1 and not (backend.poll() or backend.condition.starting))
    break_connection(backend, 0)
    until(lambda: backend.poll() or backend.condition.ready == {0, 1, 2, 3})
    assert {name: len(pids) for name, pids in lab.actors("h2").items()} == {"lab-h2-0": 1}


def test_a_holder_that_is_killed_takes_its_actors_along_before_another_begins(make: Make, lab: Remote) -> None:
    backend = make()
    settle(backend)
    backend.start(0)
    until(lambda: lab.count() == 1 and not (backend.poll() or backend.condition.starting))
    old, holder = lab.actors("h2")["lab-h2-0"], lab.holders("h2")[-1]
    os.kill(holder, signal.SIGKILL)
    (ended,) = news_of(backend)
    assert isinstance(ended, Ended)
    assert (ended.slot, ended.exit_code) == (0, 75)
    assert "gone when the connection came back" in ended.last_words
    assert not alive(old[0])
    assert lab.holders("h2")[-1] != holder


def test_two_launchers_of_one_name(make: Make, lab: Remote) -> None:
    first = make(hosts=HOSTS[:1])
    settle(first)
    first.start(0)
    until(lambda: lab.count() == 1 and not (first.poll() or first.condition.starting))
    second = make(hosts=HOSTS[:1])
    assert settle(second) == [Found(0)]
    until(lambda: "another launcher of the same name took over" in first.condition.trouble)
    assert lab.count() == 1
    third = make("other", hosts=HOSTS[:1])
    assert settle(third) == []
    assert third.condition.ready == {0, 1}


def test_fewer_slots_than_before_ends_the_surplus(make: Make, lab: Remote) -> None:
    first = make()
    settle(first)
    first.start(0)
    first.start(2)
    until(lambda: lab.count() == 2)
    first.close()
    second = make(hosts=[Host("h2", 1)])
    assert settle(second) == [Found(0)]
    until(lambda: sorted(lab.actors("h2")) == ["lab-h2-0"])


def test_without_a_launcher_the_lease_ends(make: Make, lab: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "MARGIN_SECONDS", 0.5)
    backend = make(lease=1.0, hosts=HOSTS[:1])
    monkeypatch.setattr(ssh, "PING_SECONDS", 0.1)
    settle(backend)
    backend.start(0)
    until(lambda: lab.count() == 1 and not (backend.poll() or backend.condition.starting))
    (lab.base / "h2" / "denied").touch()
    break_connection(backend, 0)
    (ended,) = news_of(backend)
    assert ended == Ended(0, 75, "no connection to h2 for 2 s: it has been ended there")
    until(lambda: lab.count() == 0, "the actor's end by its holder")
    until(lambda: not alive(lab.holders("h2")[-1]), "the holder's end")


def test_an_ssh_that_is_not_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make()
    monkeypatch.setenv("PATH", "/nowhere")
    settle(backend)
    assert backend.condition.trouble.startswith("h2: ssh: cannot be run: ")
    assert backend.condition.ready == frozenset()


def test_the_command_line_is_constant_and_strict() -> None:
    command = ssh_command("ann@h2", "/opt/a3cd/bin/a3cd", ["Port=2222"], "/etc/lab")
    assert command[:4] == ["ssh", "-F", "/etc/lab", "-T"]
    assert command[-4:] == ["--", "ann@h2", "/opt/a3cd/bin/a3cd", "hold"]
    options = command[5:-4:2]
    assert options == [*FIXED, "Port=2222"]
    assert {"BatchMode=yes", "PasswordAuthentication=no", "StrictHostKeyChecking=yes"} <= set(options)


@pytest.mark.parametrize("text", ["Port", "-oPort=1", "Port=1\nx", "stricthostkeychecking=no", "BatchMode=no", ""])
def test_options_that_are_none_or_stand_already(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"KEY=VALUE|a3cd sets"):
        check_option(text)


@pytest.mark.parametrize("text", ["a3cd; rm -rf x", "$(id)", "-x", "a b", "a'", "`x`", "a|b", "~x/a3cd", "a\nb", ""])
def test_programs_that_a_shell_would_read_otherwise(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no path of a3cd"):
        check_program(text)


@pytest.mark.parametrize("text", ["a3cd", "/opt/a3cd/bin/a3cd", "~/.local/bin/a3cd", "a3cd-0.2"])
def test_programs(text: str) -> None:
    assert check_program(text) == text
