from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from common.errors import RefusedError, UnavailableError
from common.wire import membership
from common.wire.messages import Goodbye, Halt, Hello, Refused, Save, Saved, Scale, Scaled, Stop
from deploy.cli import orders
from deploy.cli.orders import give
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
Start = Callable[..., Any]
LONG = 20.0


def heard(learner: Any, kind: type[Any]) -> int:
    return sum(isinstance(message, kind) for message in learner.heard)


def test_says_it_once_as_an_operator_and_returns_the_answer(start_learner: Start) -> None:
    learner = start_learner()
    learner.outcome = Saved(version=3, path="/srv/3")
    assert give(learner.access, Save(), LONG) == learner.outcome
    assert learner.heard[0].role == "operator"
    assert heard(learner, Save) == 1
    until(lambda: heard(learner, Goodbye) == 1)
    learner.outcome = Scaled(minimum=1, maximum=2, wanted=1, room=4)
    assert give(learner.access, Scale(minimum=1, maximum=2), LONG) == learner.outcome


def test_waits_for_the_checkpoint_behind_the_stop(start_learner: Start) -> None:
    learner = start_learner()

    def end() -> None:
        until(lambda: heard(learner, Halt) == 1)
        learner.say(Stop(reason="the learner was stopped", final=False))
        learner.say(Saved(version=7, path="/srv/7"))

    thread = Thread(target=end)
    thread.start()
    assert give(learner.access, Halt(), LONG) == Saved(version=7, path="/srv/7")
    thread.join()


def test_a_refusal_is_told(start_learner: Start) -> None:
    learner = start_learner()
    learner.outcome = Refused(code="order", reason="the run is over")
    with pytest.raises(RefusedError, match="the learner refused this operator: the run is over"):
        give(learner.access, Save(), LONG)
    learner.refusal = Refused(code="role", reason="the key of lab may be actor, not operator")
    with pytest.raises(RefusedError, match="may be actor, not operator"):
        give(learner.access, Save(), LONG)


def test_nobody_is_there(start_learner: Start) -> None:
    learner = start_learner()
    learner.stop()
    with pytest.raises(UnavailableError, match=r"no learner answers at .* \(waited 0.05 s\)"):
        give(learner.access, Halt(), 0.05)


def test_a_learner_that_goes_without_an_answer_is_not_told_again_when_it_is_back(start_learner: Start) -> None:
    first = start_learner()
    second: list[Any] = []

    def restart() -> None:
        until(lambda: heard(first, Halt) == 1)
        first.say(Stop(reason="out of memory", final=False))
        first.stop()
        second.append(start_learner(first.address.port))

    thread = Thread(target=restart)
    thread.start()
    with pytest.raises(UnavailableError, match=r"has gone and said nothing: (it ended \(out of memory\); )?whether"):
        give(first.access, Halt(), LONG)
    thread.join()
    assert (heard(first, Halt), heard(second[0], Halt)) == (1, 0)


def test_a_learner_that_forgets_its_operator_is_not_told_again(
    start_learner: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HELLO_SECONDS", 60.0)
    learner = start_learner()
    learner.outcome = Refused(code="unknown", reason="say hello first")
    with pytest.raises(UnavailableError, match="has gone and said nothing"):
        give(learner.access, Halt(), LONG)
    assert (heard(learner, Hello), heard(learner, Halt)) == (1, 1)


def test_one_that_says_nothing_is_given_up(start_learner: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = start_learner()
    monkeypatch.setattr(orders, "ANSWER_SECONDS", 0.05)
    with pytest.raises(UnavailableError, match=r"has not answered for 0.05 s: whether it did what it was told"):
        give(learner.access, Save(), LONG)


def test_one_that_ends_takes_no_order(start_learner: Start) -> None:
    learner = start_learner()
    learner.refusal = Stop(reason="the goal is reached", final=True)
    with pytest.raises(UnavailableError, match="ends: the goal is reached"):
        give(learner.access, Save(), LONG)
    assert heard(learner, Save) == 0
