"""Real processes: the cheapest command that takes a lifeline, a launcher whose learner is not there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from deploy.child import Child
from deploy.children import Children

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
LAUNCHER = ("launcher", "tcp://127.0.0.1:1", "--slots", "1")
PATIENCE_SECONDS = 30.0


def until(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def children(said: list[str]) -> Iterator[Children]:
    with Children(said.append) as some:
        yield some


def at_work(child: Child, said: list[str]) -> None:
    """It has installed its handlers long before it complains of waiting."""
    until(lambda: any("no learner at" in line for line in said) or child.exit_code is not None, "a launcher at work")
    assert child.exit_code is None, said


def test_lines_are_passed_on_and_the_exit_code_is_kept(children: Children, said: list[str]) -> None:
    child = children.start("launcher", "nonsense:::")
    child.wait(PATIENCE_SECONDS)
    assert child.exit_code == 2
    assert said[0].startswith("Usage: a3cd launcher")
    assert "is no address" in said[-1]


def test_asked_to_stop(children: Children, said: list[str]) -> None:
    child = children.start(*LAUNCHER)
    at_work(child, said)
    child.terminate()
    child.wait(PATIENCE_SECONDS)
    assert child.exit_code == 128 + signal.SIGTERM
    child.terminate()  # nothing is there any more
    assert child.exit_code == 128 + signal.SIGTERM


def test_killed_after_its_time(children: Children) -> None:
    child = children.start(*LAUNCHER)
    assert child.exit_code is None
    child.wait(0.0)
    assert child.exit_code == 128 + signal.SIGKILL


def test_none_outlives_the_context(said: list[str]) -> None:
    with Children(said.append) as some:
        child = some.start(*LAUNCHER)
    assert child.exit_code == 128 + signal.SIGKILL
