from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.backends.base import Condition, Ended
from deploy.backends.command import CommandBackend
from tests.helpers.programs import lines, program, until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SCALE = """
import json, sys
from pathlib import Path
base = Path(sys.argv[0]).parent
with (base / "calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
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
        self.ended: list[Ended] = []

    @property
    def counts(self) -> list[int]:
        return [int(json.loads(line)[-1]) for line in lines(self.base / "calls")]

    def poll(self) -> bool:
        self.ended += self.backend.poll()
        return True

    def until(self, look: Callable[[], object]) -> None:
        until(lambda: self.poll() and look())

    def want(self, count: int, start: tuple[int, ...] = (), stop: tuple[int, ...] = ()) -> None:
        for slot in start:
            self.backend.start(slot)
        for slot in stop:
            self.backend.stop(slot)
        self.backend.wish(count)


@pytest.fixture
def scaled(nothing_left_behind: None, tmp_path: Path) -> Iterator[Scaled]:
    one = Scaled(tmp_path)
    yield one
    one.backend.close()


def test_it_is_told_every_change_and_nothing_else(scaled: Scaled) -> None:
    scaled.want(2, start=(0, 1))
    assert scaled.backend.condition == Condition(starting=frozenset({0, 1}))
    scaled.until(lambda: scaled.backend.condition == Condition())
    assert json.loads(lines(scaled.base / "calls")[0]) == ["actors=2", "tcp://gpu:5555", "$(id) {other}", "2"]
    scaled.want(2)
    scaled.want(1, stop=(1,))
    scaled.until(lambda: scaled.ended)
    assert (scaled.ended, scaled.counts) == ([Ended(1, 0)], [2, 1])
    assert scaled.backend.running == {0}


def test_a_first_wish_of_none_is_told_too(scaled: Scaled) -> None:
    scaled.poll()
    scaled.want(0)
    scaled.until(lambda: scaled.counts == [0])


def test_a_failure_is_said_and_tried_again(scaled: Scaled) -> None:
    (scaled.base / "broken").touch()
    scaled.want(1, start=(0,))
    scaled.until(lambda: scaled.backend.condition.trouble)
    assert scaled.backend.condition == Condition(
        "scale: Error from server (Forbidden): no (exit code 1)", starting=frozenset({0})
    )
    (scaled.base / "broken").unlink()
    scaled.until(lambda: scaled.backend.condition == Condition())
    assert scaled.counts == [1, 1]


def test_an_actor_in_the_place_of_another_needs_no_word(scaled: Scaled) -> None:
    scaled.want(1, start=(0,))
    scaled.until(lambda: scaled.counts == [1])
    scaled.want(1, start=(1,), stop=(0,))
    scaled.until(lambda: scaled.ended == [Ended(0, 0)] and not scaled.backend.condition.starting)
    assert scaled.counts == [1]


def test_the_last_wish_is_told_before_the_end(scaled: Scaled) -> None:
    scaled.want(1, start=(0,))
    scaled.until(lambda: scaled.counts == [1])
    scaled.want(0, stop=(0,))
    scaled.backend.close()
    assert scaled.counts == [1, 0]
