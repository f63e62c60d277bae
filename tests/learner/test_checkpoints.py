"""When a learner's checkpoints are begun, and with which score; its disk takes them at once."""

from __future__ import annotations

import math

from learner.core import LearnerCore
from learner.effects import SaveCheckpoint
from tests.helpers.run import gradient_of, hello_of, learner_of
from tests.helpers.status import evaluation_status


def playing(*assignments: str) -> LearnerCore:
    core, _ = learner_of(*assignments)
    core.handle(0.0, b"x", hello_of("x"), None)
    return core


def saves(core: LearnerCore, now: float) -> list[SaveCheckpoint]:
    """Returns the checkpoints that are begun now."""
    found = [effect for effect in core.tick(now) if isinstance(effect, SaveCheckpoint)]
    for save in found:
        assert core.saved(now, save.version, "") == []
    return found


def play(core: LearnerCore, sequence: int, now: float, episode_return: float) -> None:
    header = gradient_of(sequence, sequence - 1, episodes=[(episode_return, 10, 0.1)])
    core.handle(now, b"x", header, b"gradient")


def test_checkpoints_as_often_as_set() -> None:
    core = playing("checkpoint.every_seconds=2.5")
    begun = [bool(saves(core, float(now))) for now in range(7)]
    assert begun == [False, False, False, True, False, False, True]


def test_without_an_interval_no_checkpoint_is_due() -> None:
    core = playing("checkpoint.every_seconds=0", "limits.window=1")
    for n in range(1, 30):
        play(core, n, 10.0 * n, float(n))
        assert not saves(core, 10.0 * n), "not for a new best either"
    assert math.isfinite(core.deadline)


def test_a_new_best_is_worth_a_checkpoint_of_its_own_while_the_agent_is_at_it() -> None:
    core = playing("checkpoint.every_seconds=1000", "limits.window=2")
    begun = []
    for sequence, value in enumerate([1.0, 5.0, 9.0, 9.0, 9.0, 0.0, 30.0], start=1):
        now = 4.0 * sequence
        play(core, sequence, now, value)
        begun.append(bool(saves(core, now)))
    # best means: -, 3, 7, 9, 9, 9, 15; the window is full from the second on, and at least 5 s are between two.
    assert begun == [False, True, False, True, False, False, True]


def test_a_checkpoint_has_the_score_of_its_moment_and_not_the_best_one() -> None:
    core = playing("checkpoint.every_seconds=10", "limits.window=2", "checkpoint.best=false")
    scores = []
    for sequence, value in enumerate([9.0, 9.0, 1.0, 1.0], start=1):
        now = 20.0 * sequence
        play(core, sequence, now, value)
        scores += [save.score for save in saves(core, now)]
    assert scores == [None, 9.0, 5.0, 1.0]


def test_weights_that_an_earlier_checkpoint_holds_stay_the_best_if_a_later_one_of_them_fails() -> None:
    core = playing()
    counters = core.run.stats.counters
    for saved, best in ((counters.version, True), (None, False)):
        core.run.saves._version = saved
        counters.best_evaluation = evaluation_status(version=counters.version)
        core.run.saves.begin(1.0)
        core.saved(1.0, counters.version, "No space left on device")
        assert (counters.best_evaluation is not None) == best
