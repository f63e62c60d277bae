"""What the backends' and `train`'s own tests do not show of a child."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from common.host.service.lifeline import Lifeline
from deploy.child import Child
from tests.helpers.programs import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SPEAKS = "import os, sys; print('out', flush=True); print('err\\x1b[1m', file=sys.stderr); sys.exit(3)"
HAS = "import os, sys; os.fstat(int(sys.argv[1])); sys.exit(0)"


@pytest.fixture
def lifeline(nothing_left_behind: None) -> Iterator[Lifeline]:
    one = Lifeline()
    yield one
    one.close()


@pytest.mark.parametrize(("stdout", "said"), [(True, ["out", "err\\x1b[1m"]), (False, ["err\\x1b[1m"])])
def test_what_it_says_is_printable(lifeline: Lifeline, stdout: bool, said: list[str]) -> None:
    heard: list[str] = []
    child = Child([sys.executable, "-c", SPEAKS], lifeline, heard.append, stdout=stdout)
    child.wait(30)
    assert (child.exit_code, heard, list(child.last_lines)) == (3, said, said)
    child.kill()
    child.terminate()
    assert child.exit_code == 3


def test_it_inherits_what_is_to_be_kept_open_and_nothing_else(lifeline: Lifeline) -> None:
    codes = []
    kept, other = os.pipe()
    for descriptor in (kept, other):
        child = Child([sys.executable, "-c", HAS, str(descriptor)], lifeline, lambda _: None, keep_open=[kept])
        child.wait(30)
        codes.append(child.exit_code)
    os.close(kept)
    os.close(other)
    assert codes == [0, 1]


def test_one_that_is_waited_for_too_long_is_killed(lifeline: Lifeline) -> None:
    child = Child([sys.executable, "-c", "import time; time.sleep(60)"], lifeline, lambda _: None)
    assert child.exit_code is None
    child.wait(0.0)
    assert child.exit_code == 137


def test_a_listener_that_fails_does_not_stop_the_reading(lifeline: Lifeline) -> None:
    def say(text: str) -> None:
        raise BrokenPipeError

    child = Child([sys.executable, "-c", SPEAKS], lifeline, say)
    until(lambda: child.exit_code == 3)
    assert len(child.last_lines) == 2


def test_one_that_cannot_be_started(lifeline: Lifeline) -> None:
    with pytest.raises(FileNotFoundError):
        Child(["/no/such/program"], lifeline, lambda _: None)
