from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.backends.base import Ended, Observation, Requests
from deploy.backends.command import CommandBackend
from deploy.backends.runner import ToolError
from tests.helpers.programs import lines, program

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SCALE = """
import json, sys
from pathlib import Path
base = Path(sys.argv[0]).parent
with (base / "calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if (base / "background").exists():
    import os, time
    child = os.fork()
    if child == 0:
        time.sleep(120)
        os._exit(0)
    (base / "pid").write_text(str(child))
if (base / "broken").exists():
    sys.exit("Error from server (Forbidden): no\\n")
"""


class Scaled:
    def __init__(self, base: Path) -> None:
        self.base = base
        path = program(base, "scale", SCALE)
        self.backend = CommandBackend(
            [str(path), "actors={count}", "{learner}", "$(id) {other}", "{count}"], "tcp://gpu:5555"
        )

    @property
    def counts(self) -> list[int]:
        return [int(json.loads(line)[-1]) for line in lines(self.base / "calls")]

    def want(self, planned: int | None, start: tuple[int, ...] = (), stop: tuple[int, ...] = ()) -> set[int]:
        self.backend.request(Requests(frozenset(start), frozenset(stop), planned=planned))
        return set(self.backend.observe().alive)


@pytest.fixture
def scaled(nothing_left_behind: None, tmp_path: Path) -> Iterator[Scaled]:
    one = Scaled(tmp_path)
    yield one
    one.backend.close()


def test_it_is_told_every_change_of_the_number_and_nothing_else(scaled: Scaled) -> None:
    assert scaled.want(None) == set()
    assert scaled.counts == []
    assert scaled.want(2, start=(0, 1)) == {0, 1}
    assert json.loads(lines(scaled.base / "calls")[0]) == ["actors=2", "tcp://gpu:5555", "$(id) {other}", "2"]
    scaled.want(2)
    assert scaled.want(2, start=(2,), stop=(0,)) == {1, 2}, "one in the place of another"
    assert scaled.want(1, stop=(1,)) == {2}
    assert scaled.counts == [2, 1]
    assert scaled.backend.exit_status(1) == Ended(1, 0)


def test_a_first_order_of_none_is_told_too(scaled: Scaled) -> None:
    scaled.want(0)
    assert scaled.counts == [0]


def test_a_failure_changes_nothing_and_is_tried_again(scaled: Scaled) -> None:
    (scaled.base / "broken").touch()
    with pytest.raises(ToolError, match=r"scale: Error from server \(Forbidden\): no \(exit code 1\)"):
        scaled.want(1, start=(0,))
    assert scaled.backend.observe() == Observation(unsure=True)
    (scaled.base / "broken").unlink()
    assert scaled.want(1, start=(0,)) == {0}
    assert scaled.counts == [1, 1]


def test_only_a_success_with_none_makes_sure_that_there_are_none(scaled: Scaled) -> None:
    assert scaled.backend.observe().unsure, "an earlier launcher may have had some started"
    scaled.want(0)
    assert not scaled.backend.observe().unsure
    scaled.want(1, start=(0,))
    assert scaled.backend.observe().unsure
    (scaled.base / "broken").touch()
    with pytest.raises(ToolError):
        scaled.want(0, stop=(0,))
    assert scaled.backend.observe() == Observation(frozenset({0}), unsure=True)
    (scaled.base / "broken").unlink()
    scaled.want(0, stop=(0,))
    assert scaled.backend.observe() == Observation()


def test_the_program_may_leave_actors_in_the_background(scaled: Scaled) -> None:
    (scaled.base / "background").touch()
    try:
        assert scaled.want(1, start=(0,)) == {0}
    finally:
        os.kill(int((scaled.base / "pid").read_text()), signal.SIGKILL)
    (scaled.base / "background").unlink()
    scaled.want(0, stop=(0,))
    assert scaled.counts == [1, 0]
