from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigurationError, UnavailableError
from deploy.install.ssh import Way, act, check_target, look
from deploy.install.step import Command, File, Plan
from tests.deploy.install.conftest import Fake

PLAN = Plan("a file", (File("/etc/x", b"content"),))


def test_the_command_line_asks_no_question_and_holds_nothing_of_a_plan(fake: Fake) -> None:
    way = Way.ssh("root@box", config=Path("some config"), python="/usr/bin/python3.12", sudo=True)
    command = way.command()
    assert command[:3] == ["ssh", "-o", "BatchMode=yes"]
    assert command[-5:-1] == ["-F", "some config", "--", "root@box"]
    assert command[-1].startswith("sudo -n /usr/bin/python3.12 -c 'import sys;")
    (fake.root / "etc").mkdir()
    nasty = Plan("x", (File("/etc/$(touch owned); 'x'", b"`touch owned`"),))
    act(fake.way, nasty, nasty.steps, lambda _: None)
    assert [path.name for path in (fake.root / "etc").iterdir()] == ["$(touch owned); 'x'"]
    assert all("owned" not in call for call in fake.calls)


@pytest.mark.parametrize("target", ["root@box", "box", "10.0.0.7", "a.b-c@h_1.example", "fe80::1"])
def test_targets(target: str) -> None:
    assert check_target(target) == target


@pytest.mark.parametrize("target", ["", "-oProxyCommand=x", "a b", "root@", "@box", "a@b@c", "box;ls", "$(x)", "box\n"])
def test_no_targets(target: str) -> None:
    with pytest.raises(ConfigurationError, match="is no host: write USER@HOST"):
        check_target(target)


@pytest.mark.parametrize("python", ["", "python3; ls", "$(x)", "a b"])
def test_no_python(python: str) -> None:
    with pytest.raises(ConfigurationError, match="is no program's path"):
        Way.ssh("box", python=python)


def test_looking_changes_nothing(fake: Fake) -> None:
    (fake.root / "etc").mkdir()
    assert [taken.state for taken in look(fake.way, PLAN)] == ["due"]
    assert not (fake.root / "etc/x").exists()
    told = []
    act(fake.way, PLAN, PLAN.steps, told.append)
    assert [taken.state for taken in told] == ["done"]
    assert [taken.state for taken in look(fake.way, PLAN)] == ["good"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\necho 'Permission denied (publickey).' >&2; exit 255\n", "Permission denied (publickey)."),
        ("#!/bin/sh\nexit 255\n", "it said nothing"),
        ("#!/bin/sh\nexec sh -c 'no-such-program'\n", "python3 is not there: install Python 3.11 or newer"),
    ],
)
def test_a_host_that_cannot_be_reached(fake: Fake, program: str, said: str) -> None:
    fake.put("ssh", program)
    big = Plan("x", (File("/x", b"x" * 2**20),))  # more than a pipe holds
    for attempt in (lambda: look(fake.way, PLAN), lambda: act(fake.way, big, big.steps, lambda _: None)):
        with pytest.raises(UnavailableError, match="root@box: ") as raised:
            attempt()
        assert said in str(raised.value)


def test_no_ssh_here(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="no-such-ssh is not installed here"):
        look(Way("box", ("no-such-ssh", "box")), PLAN)


def test_a_step_that_fails_says_which_and_why(fake: Fake) -> None:
    failing = Plan("x", (Command("three", ["sh", "-c", "echo oh no; exit 3"]), *PLAN.steps))
    with pytest.raises(UnavailableError, match=r"^root@box: three: sh -c echo oh no; exit 3: exit code 3: oh no$"):
        act(fake.way, failing, failing.steps, lambda _: None)
    assert not (fake.root / "etc").exists()
