"""The end of a run whose last weights an evaluator has yet to judge; all messages are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from common.run.status import summary
from common.wire.messages import AnyMessage, Goodbye, Halt, Heartbeat, Inspect, Save, Saved, Status, Stop, Weights
from learner.effects import Effect, Finish, RateCheckpoint, SaveCheckpoint, ShowStatus, WriteMetrics
from learner.last_evaluation import LONGEST_SECONDS
from tests.helpers.evaluated import Run
from tests.helpers.run import gradient_of, hello_of, logged, sent

FRAMES = 20
"""Frames of one optimizer step."""
OVER = Stop(reason="60 of 60 frames", final=True)
"""What peers are told of the end after three steps."""


def learnt(*assignments: str, before: Any = None, disk: str = "") -> tuple[Run, list[Effect]]:
    """A run that has reached its limit of three steps after seven seconds, and what its end begins with.

    Besides the actor `x` and the evaluator `e` there are a launcher `l`, an observer `o` and an operator `w`.
    """
    run = Run(f"limits.frames={3 * FRAMES}", *assignments)
    run.join("l", "launcher")
    run.join("o", "observer")
    run.core.handle(run.now, b"w", hello_of("w", "operator"), None, address="127.0.0.1")
    run.learn(2)
    if before is not None:
        before(run)
    run.now = 7.0
    run.learn()
    return run, run.tick(disk=disk)


def says(run: Run, name: str, message: AnyMessage) -> list[Effect]:
    return run.core.handle(run.now, name.encode(), message, None)


def saves_of(effects: list[Effect]) -> list[SaveCheckpoint]:
    return [effect for effect in effects if isinstance(effect, SaveCheckpoint)]


def finish_of(effects: list[Effect]) -> Finish | None:
    found = [effect for effect in effects if isinstance(effect, Finish)]
    return found[0] if found else None


def test_the_end_waits_until_the_last_weights_are_judged() -> None:
    run, effects = learnt()
    assert finish_of(effects) is None
    assert logged(effects) == ["info: 60 of 60 frames: the last weights are evaluated, then the run ends"]
    assert [save.version for save in run.saves] == [3]
    assert run.core.run.status(run.now).state == "evaluating"
    assert run.given() == 3
    run.report(3, 10.0)
    assert finish_of(run.tick(1.0)) is None, "this looks like the best, and is to be confirmed"
    assert len(sent(run.pull(version=3), Weights, b"e")) == 1
    (rated,) = [effect for effect in run.report(3, 20.0) if isinstance(effect, RateCheckpoint)]
    assert (rated.version, rated.evaluation.mean) == (3, 15.0)
    effects = run.tick(1.0)
    finish = finish_of(effects)
    assert finish is not None
    assert (finish.ending, finish.reason, finish.status.state) == ("finished", OVER.reason, "finished")
    assert finish.status.best_evaluation == rated.evaluation
    assert sent(effects, Stop, b"e") == [OVER]
    assert run.saves[-1].state["counters"]["evaluations"] == 2, "in the last checkpoint"


def test_an_evaluator_first_finishes_what_it_plays() -> None:
    run, effects = learnt(before=lambda run: run.given())
    assert finish_of(effects) is None
    run.report(2, 10.0)
    run.pull(version=2)
    run.report(2, 10.0)
    run.pull(version=2)
    assert [weights.version for weights in sent(run.tick(), Weights, b"e")] == [3], "without evaluation.every_seconds"
    assert finish_of(run.tick(100.0)) is None
    run.report(3, 9.0)
    assert finish_of(run.tick()) is not None, "what is not better is judged once"
    best = run.counters.best_evaluation
    assert best is not None
    assert best.version == 2


def test_who_has_trained_is_told_at_once_and_changes_nothing_any_more() -> None:
    run, effects = learnt()
    assert sent(effects, Stop, b"x") == sent(effects, Stop, b"l") == [OVER]
    assert sent(effects, Stop, b"e") == sent(effects, Stop, b"o") == []
    run.given()
    for message in (gradient_of(9, 3), Heartbeat(), hello_of("x")):
        assert sent(run.core.handle(run.now, b"x", message, b"gradient"), Stop) == [OVER]
    assert sent(says(run, "y", hello_of("y")), Stop) == [OVER], "nor may another begin"
    assert run.core.answer(run.now) == run.core.flush(run.now) == []
    assert run.counters.version == 3
    says(run, "x", Goodbye(reason="told so"))
    says(run, "l", Goodbye(reason="told so"))
    assert run.core.present == 1, "the evaluator"


def test_the_run_can_be_watched_meanwhile() -> None:
    run, _ = learnt()
    (status,) = sent(says(run, "o", Inspect()), Status)
    assert status.report["state"] == "evaluating"
    run.given()
    assert len([effect for _ in range(9) for effect in run.tick(1.0) if isinstance(effect, ShowStatus)]) == 9


def test_time_and_last_row_are_those_of_the_end_of_the_learning() -> None:
    run, effects = learnt()
    assert not [effect for effect in effects if isinstance(effect, WriteMetrics) and "evaluation_return" in effect.row]
    says(run, "x", Goodbye(reason="told so"))
    run.given()
    run.report(3, 10.0)
    run.pull(version=3)
    run.now += 50.0
    run.report(3, 10.0)
    effects = run.tick()
    (row,) = [effect.row for effect in effects if isinstance(effect, WriteMetrics)]
    assert (row["seconds"], row["frames"], row["actors"], row["evaluation_return"]) == (7.0, 60, 1, 10.0)
    finish = finish_of(effects)
    assert finish is not None
    assert summary(finish.status)["seconds"] == run.saves[-1].state["counters"]["seconds"] == 7.0


def test_an_evaluator_may_come_in_the_place_of_one_that_has_gone() -> None:
    run, _ = learnt()
    run.join("f")
    run.given()
    says(run, "e", Goodbye(reason="killed"))
    assert finish_of(run.tick()) is None
    run.pull("f")
    assert [weights.version for weights in sent(run.tick(20.0), Weights, b"f")] == [3]
    run.report(3, 1.0, name="f")
    run.pull("f", 3)
    run.report(3, 1.0, name="f")
    assert finish_of(run.tick()) is not None


def test_nobody_is_waited_for_in_vain() -> None:
    run, _ = learnt()
    run.given()
    says(run, "e", Goodbye(reason="killed"))
    assert finish_of(run.tick()) is not None, "the evaluator has gone"

    run, _ = learnt("exchange.expiry_seconds=30")
    run.given()
    says(run, "e", Heartbeat(state="playing"))
    for _ in range(29):
        assert finish_of(run.tick(1.0)) is None
    effects = [effect for _ in range(3) for effect in run.tick(1.0)]
    assert "has been silent for 30 s" in "".join(logged(effects))
    assert finish_of(effects) is not None

    run, _ = learnt()
    run.given()
    for _ in range(int(LONGEST_SECONDS) - 1):
        says(run, "e", Heartbeat())
        assert finish_of(run.tick(1.0)) is None
        assert run.now < run.core.deadline <= run.now + 1.0, "nothing turns idly"
    assert finish_of(run.tick(1.0)) is not None, "it takes too long"


def test_an_operator_who_orders_a_checkpoint_meanwhile_gets_it() -> None:
    run, _ = learnt()
    run.given()
    says(run, "w", Save())
    (save,) = saves_of(run.core.tick(run.now))
    assert saves_of(run.core.tick(run.now)) == []
    (answer,) = sent(run.core.saved(run.now, save.version, "", "runs/x"), Saved, b"w")
    assert (answer.version, answer.path) == (3, "runs/x")


def test_the_last_weights_are_given_once_they_are_on_the_disk_whatever_is_written_before() -> None:
    run = Run(f"limits.frames={2 * FRAMES}")
    run.core.handle(run.now, b"w", hello_of("w", "operator"), None, address="127.0.0.1")
    run.learn()
    says(run, "w", Save())
    (earlier,) = saves_of(run.core.tick(run.now))
    run.learn()
    (last,) = saves_of(run.core.tick(run.now))
    assert (earlier.version, last.version) == (1, 2)
    run.pull()
    run.core.saved(run.now, 1, "")
    assert sent(run.core.tick(run.now), Weights, b"e") == []
    run.core.saved(run.now, 2, "")
    assert [weights.version for weights in sent(run.core.tick(run.now), Weights, b"e")] == [2]


def test_an_operator_or_a_signal_ends_it_and_the_run_is_finished_all_the_same() -> None:
    run, _ = learnt()
    run.given()
    assert says(run, "w", Halt()) == []
    stopped = finish_of(run.tick())
    assert stopped is not None
    assert (stopped.ending, stopped.reason) == ("finished", OVER.reason)

    run, _ = learnt()
    signalled = finish_of(run.core.stop(run.now))
    assert signalled is not None
    assert (signalled.ending, signalled.reason) == ("finished", OVER.reason)


def test_without_an_evaluator_the_run_ends_at_once() -> None:
    _, effects = learnt(before=lambda run: says(run, "e", Goodbye(reason="killed")))
    assert finish_of(effects) is not None


def test_a_goal_that_an_evaluation_has_reached_needs_no_other() -> None:
    run = Run("limits.until_return=10", "limits.until_return_of=evaluation")
    run.evaluate(12.0, 12.0)
    run.learn()
    finish = finish_of(run.tick())
    assert finish is not None
    assert finish.ending == "reached"


def test_weights_that_are_judged_already_are_not_judged_again() -> None:
    run = Run("limits.seconds=30")
    run.evaluate(10.0, 10.0)
    assert finish_of(run.tick(20.0)) is not None


@pytest.mark.parametrize(
    ("setting", "disk", "rated"),
    [("checkpoint.every_seconds=0", "", True), ("checkpoint.best=false", "", False), ("seed=1", "disk full", False)],
)
def test_what_is_evaluated_is_the_last_checkpoint_if_it_is_on_the_disk(setting: str, disk: str, rated: bool) -> None:
    run, _ = learnt(setting, disk=disk)
    run.given()
    run.report(3, 1.0)
    run.pull(version=3)
    effects = run.report(3, 1.0)
    assert [effect.version for effect in effects if isinstance(effect, RateCheckpoint)] == [3] * rated
    assert finish_of(run.tick()) is not None
    assert run.saves[-1].version == 3
