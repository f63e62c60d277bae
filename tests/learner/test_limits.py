"""Each limit, and the goal before them."""

import pytest

from common.rl.episode import Episode
from common.settings.sections import Limits
from learner.limits import ending
from learner.run_stats import Counters, RunStats
from tests.helpers.run import settings_of
from tests.helpers.status import evaluation_status
from tests.learner.test_run_stats import played, stats_of


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(frames=20), "20 of 20 frames"),
        (Limits(episodes=1), "1 of 1 episodes"),
        (Limits(seconds=10.0), "10 of 10 seconds"),
    ],
)
def test_each_limit_ends_the_run_when_it_is_reached(limits: Limits, reason: str) -> None:
    stats = stats_of()
    assert ending(stats, 109.0, limits) is None
    played(stats, 1.0)
    assert ending(stats, 110.0, limits) == ("finished", reason)
    assert ending(stats, 1e9, Limits()) is None


def test_a_run_without_a_frame_has_failed() -> None:
    reason = "10 of 10 seconds, in which no actor played a frame"
    assert ending(stats_of(), 110.0, Limits(seconds=10.0)) == ("failed", reason)


def test_the_goal_is_told_before_other_limits() -> None:
    stats = stats_of(window=2)
    limits = Limits(frames=20, until_return=5.0, window=2)
    played(stats, 9.0, steps=19)
    assert ending(stats, 101.0, limits) is None, "the window is not full"
    played(stats, 1.0)
    assert ending(stats, 101.0, limits) == ("reached", "mean return 5.0 over 2 episodes reached 5")


def test_the_goal_may_be_one_of_evaluations() -> None:
    stats = stats_of(window=1)
    limits = Limits(until_return=50.0, until_return_of="evaluation", window=1)
    played(stats, 99.0)
    assert ending(stats, 101.0, limits) is None, "training's returns do not count"
    stats.counters.best_evaluation = evaluation_status(mean=49.0)
    assert ending(stats, 101.0, limits) is None
    stats.counters.best_evaluation = found = evaluation_status(mean=50.0)
    assert ending(stats, 101.0, limits) == ("reached", f"evaluation of version 20000: {found} reached 50")
    assert ending(stats, 101.0, Limits(until_return=100.0)) is None, "nor evaluations for a goal of training"


def test_without_episodes_no_goal_is_reached() -> None:
    assert ending(stats_of(), 101.0, Limits(until_return=-1000.0)) is None


def test_a_run_that_ended_at_its_goal_is_over_when_it_is_resumed() -> None:
    """Though the episodes that are kept would have a lower score."""
    counters = Counters(frames=20, recent=[Episode(474.0, 474, 1.0)])
    limits = Limits(until_return=475.0, window=1)
    settings = settings_of("limits.window=1")
    assert ending(RunStats(counters, settings, 0.0), 0.0, limits) is None
    over = ending(RunStats(counters, settings, 0.0, score=475.0), 0.0, limits)
    assert over == ("reached", "mean return 475.0 over 1 episodes reached 475")
