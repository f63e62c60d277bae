"""Also shown by the tests of the process backend and of `train`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.children import Children, a3cd
from tests.helpers.programs import program
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SPEAKS = "import os, sys; print('out', flush=True); print('err\\x1b[1m', file=sys.stderr); sys.exit(3)"
HAS = "import os, sys; os.fstat(int(sys.argv[1])); sys.exit(0)"
SLEEPS = "import time; time.sleep(60)"
WATCHES = (
    "from common.host.service import lifeline; lifeline.watch(); print('up', flush=True); import time; time.sleep(60)"
)


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


@pytest.fixture
def children(nothing_left_behind: None) -> Iterator[Children]:
    with Children() as some:
        yield some


@pytest.mark.parametrize(("stdout", "said"), [(True, ["out", "err\\x1b[1m"]), (False, ["err\\x1b[1m"])])
def test_what_it_says_is_printable(children: Children, stdout: bool, said: list[str]) -> None:
    heard: list[str] = []
    child = children.start(python(SPEAKS), heard.append, stdout=stdout)
    child.wait(30)
    assert (child.exit_code, heard, list(child.last_lines)) == (3, said, said)
    child.kill()
    child.terminate()
    assert child.exit_code == 3


@pytest.mark.parametrize("stdout", [True, False])
def test_its_end_is_told(children: Children, stdout: bool) -> None:
    told = threading.Event()
    child = children.start(python(SPEAKS), lambda _: None, stdout=stdout, ended=told.set)
    assert told.wait(30) and child.silent
    child.wait(30)
    assert not children.start(python(SLEEPS), lambda _: None).silent


def test_it_inherits_what_is_to_be_kept_open_and_nothing_else(children: Children) -> None:
    codes = []
    kept, other = os.pipe()
    for descriptor in (kept, other):
        child = children.start(python(HAS, str(descriptor)), lambda _: None, keep_open=[kept])
        child.wait(30)
        codes.append(child.exit_code)
    os.close(kept)
    os.close(other)
    assert codes == [0, 1]


def test_one_that_is_waited_for_too_long_is_killed(children: Children) -> None:
    child = children.start(python(SLEEPS), lambda _: None)
    assert child.exit_code is None
    child.wait(0.0)
    assert child.exit_code == 137


def test_a_listener_that_fails_does_not_stop_the_reading(children: Children) -> None:
    def say(text: str) -> None:
        raise BrokenPipeError

    child = children.start(python(SPEAKS), say)
    until(lambda: child.exit_code == 3)
    assert len(child.last_lines) == 2


def test_one_that_cannot_be_started(children: Children) -> None:
    with pytest.raises(FileNotFoundError):
        children.start(["/no/such/program"], lambda _: None)


def test_none_outlives_the_context() -> None:
    with Children() as some:
        running = [some.start(python(SLEEPS), lambda _: None) for _ in range(2)]
    assert [child.exit_code for child in running] == [137, 137]


def test_they_end_with_their_lifeline(children: Children) -> None:
    heard: list[str] = []
    child = children.start(python(WATCHES), heard.append)
    until(lambda: heard == ["up"])
    children._lifeline.close()
    child.wait(30)
    assert child.exit_code == 143
    children._lifeline = type(children._lifeline)()


def test_a3cd_is_the_script_beside_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", ["/opt/bin/a3cd", "launcher"])
    assert a3cd("actor", "x") == ["/opt/bin/a3cd", "actor", "x"]
    monkeypatch.setattr(sys, "argv", ["/opt/lib/a3cd/__main__.py", "launcher"])
    assert a3cd("actor") == [str(tmp_path / "python"), "-m", "a3cd", "actor"]
    script = program(tmp_path, "a3cd", "")
    assert a3cd() == [str(script)]
