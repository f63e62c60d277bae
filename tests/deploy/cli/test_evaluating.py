"""When an evaluator is started beside a training, and started again; the processes are on paper."""

from __future__ import annotations

from typing import Any

import pytest

from common.host.addresses import Address
from deploy.cli.evaluating import AFTER_SECONDS, RETRY_SECONDS, Evaluating
from tests.helpers.run import settings_of


class Paper:
    exit_code: int | None = None


class Stage:
    def __init__(self, *assignments: str) -> None:
        self.started: list[tuple[str, ...]] = []
        self.child = Paper()
        self.full = False
        """Whether the system has no room for another process."""
        address = Address("127.0.0.1", 5555)
        self.one = Evaluating(self._start, settings_of(*assignments), address, ["--allow-module", "games"], 100.0)

    def _start(self, *words: str) -> Any:
        self.started.append(words)
        if self.full:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.child = Paper()
        return self.child

    def count(self, now: float) -> int:
        """How many were ever started, after a look at this time."""
        self.one.look(now)
        return len(self.started)


def test_a_short_training_never_starts_one() -> None:
    stage = Stage()
    assert stage.count(100.0) == stage.count(99.9 + AFTER_SECONDS) == 0
    assert stage.count(100.0 + AFTER_SECONDS) == stage.count(1e6) == 1
    words = ("evaluator", "tcp://127.0.0.1:5555", "--insecure", "--name", "here", "--nice", "19")
    assert stage.started == [(*words, "--allow-module", "games")]


def test_where_no_process_can_be_started_it_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.full = True
    begin = 100.0 + AFTER_SECONDS
    assert stage.count(begin) == stage.count(begin + RETRY_SECONDS - 0.1) == 1
    stage.full = False
    assert stage.count(begin + RETRY_SECONDS) == stage.count(1e6) == 2
    assert caplog.messages == ["the evaluator cannot be started now: Resource temporarily unavailable"]


def test_without_evaluation_there_is_none() -> None:
    assert Stage("evaluation.episodes=0").count(1e9) == 0


@pytest.mark.parametrize(("goal", "started"), [("limits.until_return=1", 1), ("limits.window=100", 0)])
def test_a_run_that_ends_by_an_evaluation_has_one_at_once(goal: str, started: int) -> None:
    assert Stage("limits.until_return_of=evaluation", goal).count(100.0) == started


def test_one_that_ended_is_started_again_ever_more_slowly() -> None:
    stage = Stage()
    now = 100.0 + AFTER_SECONDS
    assert stage.count(now) == 1
    stage.child.exit_code = 75
    assert stage.count(now) == stage.count(now + RETRY_SECONDS - 0.1) == 1
    assert stage.count(now + RETRY_SECONDS) == 2
    stage.child.exit_code = 75
    now += RETRY_SECONDS
    assert stage.count(now) == stage.count(now + RETRY_SECONDS) == 2
    assert stage.count(now + 2 * RETRY_SECONDS) == 3


def test_one_whose_run_is_over_is_not() -> None:
    stage = Stage()
    stage.count(200.0)
    stage.child.exit_code = 0
    assert stage.count(201.0) == stage.count(1e9) == 1
