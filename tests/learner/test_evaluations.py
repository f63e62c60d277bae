"""Which weights evaluators are given, and what their reports change; the evaluators' messages are written by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from common.rl.episode import Episode
from common.wire.messages import Goodbye, Refused, Weights, Welcome
from learner.connections import Progress
from learner.effects import Disconnect, Finish, RateCheckpoint, Send
from learner.evaluations import EVALUATORS, UNCHANGED_SECONDS
from learner.exclusion import BAD_IN_A_ROW, MOST_OFFENCES
from learner.parameters.pulls import UNDER_WAY_SECONDS
from learner.run import SEEDS_PER_RUN
from learner.run_stats import Counters
from tests.helpers.evaluated import EPISODES, Run
from tests.helpers.run import MODEL, body_of, gradient_of, hello_of, logged, sent


def test_an_evaluator_is_welcomed_with_what_it_needs_to_play() -> None:
    run = Run("seed=7")
    effects = run.core.handle(0.0, b"f", hello_of("f", "evaluator"), None)
    (welcome,) = sent(effects, Welcome, b"f")
    assert [effect.body for effect in effects if isinstance(effect, Send)] == [None]
    assert welcome.settings["evaluation"]["episodes"] == EPISODES
    assert (welcome.model, welcome.weights_format, welcome.credit) == (MODEL, "fp32", 0)
    assert welcome.seed == 7 * SEEDS_PER_RUN + 1, "it is the second one"


def test_a_run_that_evaluates_nothing_lets_none_in() -> None:
    run = Run("evaluation.episodes=0")
    (refusal,) = sent(run.core.handle(0.0, b"f", hello_of("f", "evaluator"), None), Refused)
    assert (refusal.code, refusal.reason) == ("role", "this run takes no evaluations: evaluation.episodes = 0")


def test_an_evaluator_may_not_take_part_in_the_learning() -> None:
    run = Run()
    (refusal,) = sent(run.core.handle(0.0, b"e", gradient_of(), b"gradient"), Refused)
    assert (refusal.code, run.counters.version) == ("role", 0)
    (refusal,) = sent(run.report(0, 1.0, name="x"), Refused)
    assert refusal.code == "role", "nor an actor evaluate"


def test_the_newest_weights_are_given_with_a_checkpoint_of_them() -> None:
    run = Run()
    version = run.learn(3)
    assert run.pull() == []
    effects = run.tick()
    (weights,) = sent(effects, Weights, b"e")
    assert (weights.version, weights.delta, run.saves[-1].version) == (version, False, version)
    (body,) = [effect.body for effect in effects if isinstance(effect, Send) and effect.peer == b"e"]
    assert body == body_of(version)
    assert [save.under_evaluation for save in run.saves] == [set()]
    run.learn()
    run.tick(100_000.0)
    assert run.saves[-1].under_evaluation == {version}


@pytest.mark.parametrize("setting", ["checkpoint.best=false", "checkpoint.every_seconds=0"])
def test_without_best_checkpoints_none_is_written_for_an_evaluation(setting: str) -> None:
    run = Run(setting)
    assert not [effect for effect in run.evaluate(5.0, 6.0) if isinstance(effect, RateCheckpoint)]
    assert run.saves == []
    assert run.counters.best_evaluation is not None


def test_weights_are_given_no_more_often_than_every_seconds_to_one_evaluator_at_a_time() -> None:
    run = Run()
    run.join("f")
    run.learn()
    run.pull()
    run.pull("f")
    assert len(sent(run.tick(), Weights, b"e")) == 1
    assert run.core.deadline <= run.now + 10.0
    run.learn()
    assert sent(run.tick(9.0), Weights) == []
    assert [weights.version for weights in sent(run.tick(1.0), Weights, b"f")] == [2]
    for _ in range(2):
        run.report(1, 0.0)
        run.pull(version=1)
    for _ in range(5):
        run.learn()
        run.pull(version=1)
    assert sent(run.tick(9.0), Weights) == []
    assert len(sent(run.tick(1.0), Weights, b"e")) == 1


def test_weights_that_have_been_evaluated_are_not_given_again() -> None:
    run = Run()
    run.evaluate(1.0, 1.0)
    run.pull(version=1)
    for _ in range(5):
        assert sent(run.tick(10.0), Weights) == []
        assert run.core._evaluations.deadline == run.now + UNCHANGED_SECONDS, "nothing turns idly"
    run.learn()
    assert len(sent(run.tick(10.0), Weights)) == 1


def test_on_a_slow_link_an_evaluator_that_asks_again_is_expected_to_play_what_is_under_way() -> None:
    run = Run()
    run.learn()
    assert run.given() == 1
    body = len(body_of(1))
    for second in range(1, 200):  # it has asked with nothing in hand, and asks again while the weights arrive
        run.core.progress({b"e": Progress(run.now, second * body // 200)})
        run.learn()
        if second % 30 == 0:
            run.pull()
        assert sent(run.tick(1.0), Weights, b"e") == []
    assert sent(run.report(1, 7.0), Refused) == []
    assert run.counters.evaluation is not None
    assert run.counters.evaluation.version == 1


@pytest.mark.parametrize("steps", [0, 1])
def test_an_evaluator_whose_weights_were_lost_is_given_the_newest(steps: int) -> None:
    run = Run()
    run.learn()
    assert run.given() == 1
    run.learn(steps)
    run.now += UNDER_WAY_SECONDS
    run.pull()
    assert [weights.version for weights in sent(run.tick(), Weights, b"e")] == [1 + steps]


def test_two_evaluators_are_never_given_the_same_weights_unless_the_first_has_gone() -> None:
    run = Run()
    run.join("f")
    run.learn()
    assert run.given() == 1
    run.pull("f")
    assert sent(run.tick(10.0), Weights) == []
    run.core.handle(run.now, b"e", Goodbye(reason="killed"), None)
    assert [weights.version for weights in sent(run.tick(10.0), Weights, b"f")] == [1]


def test_while_a_checkpoint_is_written_an_evaluator_waits() -> None:
    run = Run()
    run.learn()
    run.core.run.saves.begin(0.0)
    run.pull()
    assert sent(run.core.tick(0.0), Weights) == []
    assert run.core.deadline > 0.0
    run.core.saved(0.5, 1, "")
    assert len(sent(run.core.tick(0.5), Weights)) == 1


def test_the_figures_of_an_evaluation_are_in_status_and_metrics() -> None:
    run = Run()
    assert "evaluation_return" not in run.core.run.metrics(0.0)
    run.learn(2)
    run.now = 12.0
    version = run.given()
    run.report(version, 1.0, 2.0, 3.0, 6.0)
    status = run.core.run.status(13.0)
    found = status.evaluation
    assert found is not None
    assert (found.mean, found.median, found.interquartile_mean, found.episodes) == (3.0, 2.5, 2.5, 4)
    assert (found.version, found.frames, found.seconds, status.evaluations) == (2, 40, 12.0, 1)
    row = run.core.run.metrics(13.0)
    assert (row["evaluation_return"], row["evaluation_version"], row["evaluation_frames"]) == (3.0, 2, 40)
    assert row["evaluation_low"] < 3.0 < row["evaluation_high"]


def test_the_best_must_be_confirmed_by_a_second_evaluation_of_the_same_weights() -> None:
    run = Run()
    run.learn()
    version = run.given()
    run.learn()
    run.report(version, 10.0)
    assert run.counters.best_evaluation is None
    assert sent(run.pull(version=version), Weights) == [Weights(version=version, epoch=1)], "and no new weights"
    assert len(sent(run.pull(version=version), Weights)) == 1, "again, since the answer may have been lost"
    effects = run.report(version, 20.0)
    (rated,) = [effect for effect in effects if isinstance(effect, RateCheckpoint)]
    assert (rated.version, rated.evaluation.mean, rated.evaluation.episodes) == (version, 15.0, 2 * EPISODES)
    assert run.counters.best_evaluation == run.counters.evaluation == rated.evaluation


def test_what_is_not_confirmed_is_not_the_best() -> None:
    run = Run()
    run.evaluate(10.0, 10.0)
    effects = run.evaluate(14.0, 5.0)
    assert not [effect for effect in effects if isinstance(effect, RateCheckpoint)]
    best = run.counters.best_evaluation
    assert best is not None
    assert (best.mean, best.version, run.counters.evaluations) == (10.0, 1, 4)


def test_what_is_not_better_is_not_played_again() -> None:
    run = Run()
    run.evaluate(10.0, 10.0)
    run.evaluate(10.0)
    assert sent(run.pull(version=run.counters.version), Weights) == []


def test_a_checkpoint_that_the_disk_did_not_take_is_not_the_best() -> None:
    run = Run()
    run.learn()
    run.pull()
    run.tick(disk="disk full")
    run.report(1, 10.0)
    assert run.counters.best_evaluation is None
    assert sent(run.pull(version=1), Weights) == []
    run.learn()
    run.now += 10.0
    run.pull(version=1)
    assert [weights.version for weights in sent(run.core.tick(run.now), Weights)] == [2]
    run.report(2, 10.0)
    run.pull(version=2)
    run.report(2, 10.0)
    assert run.counters.best_evaluation is not None
    run.core.saved(run.now, 2, "written late, and not at all")
    assert run.counters.best_evaluation is None


def test_an_evaluation_outlives_a_broken_connection() -> None:
    run = Run()
    run.learn()
    version = run.given()
    run.core.handle(1.0, b"e again", hello_of("e", "evaluator"), None)
    run.report(version, 10.0, name="e again")
    assert run.counters.evaluations == 1
    assert len(sent(run.pull("e again", version), Weights)) == 1


def test_who_is_gone_keeps_no_checkpoint_and_may_come_back_too_late_for_the_best() -> None:
    """An evaluator that is killed again and again would otherwise fill the disk."""
    run = Run()
    run.learn()
    version = run.given()
    run.core.handle(run.now, b"e", Goodbye(reason="killed"), None)
    newer = run.learn()
    run.tick(100_000.0)
    assert (run.saves[-1].version, run.saves[-1].under_evaluation) == (newer, set())
    run.join("e")
    run.report(version, 10.0)
    assert run.counters.evaluations == 1
    assert sent(run.pull(version=version), Weights) == [], "it is not the best: its checkpoint may be gone"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": 99}, "of version 99, which it was not to play now"),
        ({"episodes": [Episode(1.0, 10, 0.0)] * (EPISODES - 1)}, "with 3 episodes, not evaluation.episodes = 4"),
        ({"episodes": [Episode(float("nan"), 10, 0.0)] * EPISODES}, "with an episode of return nan"),
        ({"episodes": [Episode(1e300, 10, 0.0)] * EPISODES}, "with an episode of return 1e+300"),
        ({"episodes": [Episode(1.0, 0, 0.0)] * EPISODES}, "with an episode of 0 steps"),
        ({"episodes": [Episode(1.0, 501, 0.0)] * EPISODES}, "with an episode of 501 steps"),
        ({"episodes": [Episode(1.0, 10, float("inf"))] * EPISODES}, "with an episode of inf seconds"),
    ],
)
def test_figures_that_no_evaluator_has_are_refused(changed: dict[str, Any], why: str) -> None:
    run = Run(longest=500)
    run.learn()
    run.given()
    effects = run.report(1, 1.0, **changed)
    assert why in logged(effects)[0]
    assert run.counters.evaluations == 0
    for _ in range(BAD_IN_A_ROW - 1):
        effects = run.report(1, 1.0, **changed)
    assert sent(effects, Refused)[0].code == "quarantined"
    assert any(isinstance(effect, Disconnect) for effect in effects)
    (refusal,) = sent(run.core.handle(1.0, b"e", hello_of("e", "evaluator"), None), Refused)
    assert refusal.code == "quarantined"


def test_who_was_given_nothing_and_who_reports_twice_is_refused() -> None:
    run = Run()
    run.learn()
    assert "which it was not to play" in logged(run.report(1, 1.0))[0]
    run.evaluate(1.0, 1.0)
    assert "which it was not to play" in logged(run.report(run.counters.version, 1e6))[0]
    best = run.counters.best_evaluation
    assert best is not None
    assert best.mean == 1.0


def test_an_evaluation_of_another_epoch_is_told_so_and_many_are_too_many() -> None:
    run = Run()
    for _ in range(MOST_OFFENCES - 1):
        (refusal,) = sent(run.report(1, 1.0, epoch=9), Refused)
        assert refusal.code == "unknown"
    assert sent(run.report(1, 1.0, epoch=9), Refused)[0].code == "quarantined"


def test_many_evaluators_are_not_remembered_for_ever() -> None:
    run = Run()
    for number in range(2 * EVALUATORS):
        run.now += 10.0
        run.learn()
        name = f"one-{number}"
        run.join(name)
        run.pull(name)
        assert len(sent(run.tick(), Weights, name.encode())) == 1
    assert len(run.core._evaluations._given) == EVALUATORS


def test_a_run_can_end_by_its_evaluation() -> None:
    goal = ("limits.until_return=10", "limits.until_return_of=evaluation")
    run = Run(*goal)
    run.evaluate(12.0)
    assert not [effect for effect in run.tick() if isinstance(effect, Finish)], "one is not enough"
    version = run.counters.version
    run.pull(version=version)
    run.report(version, 9.0)
    (finish,) = [effect for effect in run.tick() if isinstance(effect, Finish)]
    assert finish.ending == "reached"
    assert finish.reason == "evaluation of version 1: mean return 10.5 (9.159 to 11.84) over 8 episodes reached 10"


def test_evaluations_are_in_checkpoints_and_go_on_after_a_restart() -> None:
    run = Run()
    run.evaluate(10.0, 10.0)
    run.learn()
    run.tick(100_000.0)
    counters = msgspec.convert(run.saves[-1].state["counters"], Counters)
    assert (counters.evaluations, counters.best_evaluation) == (2, run.counters.best_evaluation)
    again = Run(counters=counters)
    again.evaluate(9.0)
    assert again.counters.best_evaluation == counters.best_evaluation
