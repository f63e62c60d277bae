from __future__ import annotations

import math
import threading

import pytest

from deploy.backends import worker as module
from deploy.backends.worker import Pause, Worker

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_turns_are_taken_when_asked_for_and_once_at_the_end() -> None:
    turns = threading.Semaphore(0)
    count = 0

    def turn() -> float:
        nonlocal count
        count += 1
        turns.release()
        return math.inf

    worker = Worker(turn)
    worker.start()
    worker.start()
    assert turns.acquire(timeout=10)
    worker.wake()
    assert turns.acquire(timeout=10)
    worker.close(10, lambda: pytest.fail("not needed"))
    assert count == 3


def test_a_turn_that_hangs_is_aborted() -> None:
    begun, aborted = threading.Event(), threading.Event()

    def turn() -> float:
        begun.set()
        aborted.wait()
        return math.inf

    worker = Worker(turn)
    worker.start()
    assert begun.wait(10)
    worker.close(0.05, aborted.set)
    assert aborted.is_set()


def test_one_that_never_began_has_nothing_to_end() -> None:
    Worker(lambda: pytest.fail("no turn")).close(0, lambda: pytest.fail("no abort"))


def test_a_pause_grows_with_failures_and_ends_with_success(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    pause = Pause()
    assert pause.left == 0
    pause.failed()
    assert pause.left == 1
    now += 1.5
    assert pause.left == 0
    pause.failed()
    assert pause.left == 2
    pause.worked()
    assert pause.left == 0
    pause.failed()
    assert pause.left == 1
