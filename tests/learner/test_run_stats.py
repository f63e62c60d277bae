from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from common.settings.sections import Limits
from learner.peers import Peers
from learner.run_stats import WARNINGS, Counters, Ledger
from learner.scaling import Decision
from tests.helpers.run import gradient_of, hello_of, plan_of, settings_of

START = Decision(2, "from the minimum: 2 actors")


def ledger_of(counters: Counters | None = None, window: int = 3, now: float = 100.0) -> Ledger:
    return Ledger(counters or Counters(), window, START, now)


def played(ledger: Ledger, *returns: float, now: float = 101.0, **changed: Any) -> None:
    header = gradient_of(episodes=[(value, 10, 0.5) for value in returns], **changed)
    ledger.received(now, header, 1000, 2)
    ledger.stepped(now)
    ledger.applied(header)


def restarted(ledger: Ledger, now: float, **changed: Any) -> Ledger:
    """By way of a checkpoint's JSON, on another clock."""
    saved = json.loads(json.dumps(ledger.saved(now)))
    return ledger_of(msgspec.convert(saved, Counters), now=5000.0, **changed)


def test_counters_add_up() -> None:
    ledger = ledger_of()
    ledger.joined(4)
    ledger.joined(3)
    played(ledger, 1.0, 2.0)
    played(ledger, 3.0)
    ledger.sent(101.0, 500)
    counters = ledger.counters
    assert (counters.frames, counters.emulator_frames, counters.episodes) == (40, 160, 3)
    assert (counters.gradients, counters.version, counters.actors_peak) == (2, 2, 4)
    assert (counters.gradient_bytes, counters.weight_bytes) == (2000, 500)
    assert ledger.seconds(130.0) == 30.0


def test_all_that_is_saved_goes_on_after_a_restart() -> None:
    ledger = ledger_of()
    played(ledger, 1.0, 2.0, 30.0, 40.0, 20.0)
    played(ledger, 3.0)
    ledger.joined(9)
    ledger.sent(101.0, 77)
    ledger.counters.stale, ledger.counters.refused, ledger.counters.duplicates = 3, 2, 1
    ledger.decided(Decision(7, "more"), 4)
    again = restarted(ledger, 130.0)
    before, after = msgspec.to_builtins(ledger.counters), msgspec.to_builtins(again.counters)
    for name in set(before) - {"seconds", "recent", "best_return"}:
        assert after[name] == before[name], name
    assert again.wanted == 7
    assert again.window.mean_return == pytest.approx(21.0)
    assert again.window.best_return == pytest.approx(30.0)
    assert again.window.episodes == 6
    assert again.seconds(5010.0) == 40.0
    played(again, 37.0)
    assert again.window.mean_return == pytest.approx(20.0)
    assert again.counters.episodes == 7
    twice = restarted(again, 5010.0)
    assert (twice.counters.episodes, twice.window.mean_return) == (7, pytest.approx(20.0))
    assert twice.seconds(5000.0) == 40.0


@pytest.mark.parametrize("window", [1, 2, 10])
def test_a_run_resumed_with_another_window_counts_each_episode_once(window: int) -> None:
    ledger = ledger_of()
    played(ledger, 1.0, 2.0, 3.0, 4.0)
    again = restarted(ledger, 130.0, window=window)
    assert again.counters.episodes == again.window.episodes == 4
    played(again, 5.0)
    assert again.counters.episodes == 5


def test_without_episodes_there_is_no_mean_and_no_goal_is_reached() -> None:
    ledger = ledger_of()
    assert ledger.saved(101.0)["recent"] == []
    assert ledger.over(101.0, Limits(until_return=-1000.0)) is None
    assert restarted(ledger, 101.0).window.mean_return is None


def test_episodes_that_are_no_numbers_are_not_counted_and_not_saved() -> None:
    ledger = ledger_of()
    played(ledger, math.nan, math.inf, -math.inf, 1e300, 4.0)
    assert (ledger.counters.episodes, ledger.window.mean_return) == (1, 4.0)
    assert ledger.saved(101.0)["recent"] == [[4.0, 10, 0.5]]


def test_losses_are_those_named_and_stay_finite() -> None:
    ledger = ledger_of()
    played(ledger, statistics={"entropy": 0.5, "spam": 1.0, "ratio": math.nan})
    for value in (1e308, -1e308, math.inf):
        played(ledger, statistics={"entropy": value})
    played(ledger, statistics={"entropy": 0.7, "value_loss": 2.0})
    row = ledger.row(102.0, 1)
    assert row["entropy"] == pytest.approx(0.5 + 0.02 * 0.2)
    assert row["value_loss"] == 2.0
    assert "spam" not in row and "ratio" not in row


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(frames=20), "20 of 20 frames"),
        (Limits(episodes=1), "1 of 1 episodes"),
        (Limits(seconds=10.0), "10 of 10 seconds"),
    ],
)
def test_each_limit_ends_the_run_when_it_is_reached(limits: Limits, reason: str) -> None:
    ledger = ledger_of()
    assert ledger.over(109.0, limits) is None
    played(ledger, 1.0)
    assert ledger.over(110.0, limits) == ("finished", reason)
    assert ledger.over(1e9, Limits()) is None


def test_the_goal_is_told_before_other_limits() -> None:
    ledger = ledger_of(window=2)
    limits = Limits(frames=20, until_return=5.0, window=2)
    played(ledger, 9.0, steps=19)
    assert ledger.over(101.0, limits) is None, "the window is not full"
    played(ledger, 1.0)
    assert ledger.over(101.0, limits) == ("reached", "mean return 5.0 over 2 episodes reached 5")


def test_a_decision_says_whether_the_number_changes_and_whether_the_guard_held_it() -> None:
    ledger = ledger_of()
    assert (ledger.wanted, ledger.why) == (2, START.why)
    assert not ledger.decided(Decision(2, "held at 2 actors: busy"), 0)
    assert ledger.held and ledger.why == "held at 2 actors: busy"
    assert ledger.decided(Decision(3, "2 -> 3 actors"), 50)
    assert not ledger.held
    assert (ledger.counters.wanted, ledger.counters.last_addition) == (3, 50)


def test_policies_see_what_was_measured() -> None:
    ledger = ledger_of()
    played(ledger, 1.0, now=100.0)
    played(ledger, 1.0, now=101.0)
    ledger.busy.working(102.0, 0.5)
    measurement = ledger.measurement(102.0, 5)
    assert (measurement.actors, measurement.wanted, measurement.episodes) == (5, 2, 2)
    assert (measurement.mean_episode_seconds, measurement.lag_mean) == (0.5, 2.0)
    assert measurement.gradients_per_second == measurement.steps_per_second == pytest.approx(1.0)
    assert measurement.learner_busy == pytest.approx(0.25)


def test_warnings_are_the_newest_few_each_once() -> None:
    ledger, plan = ledger_of(), plan_of(settings_of())
    for number in range(WARNINGS + 2):
        ledger.warn(f"warning {number}")
        ledger.warn(f"warning {number}")
    assert ledger.status(101.0, plan, Peers()).warnings == [f"warning {number}" for number in range(2, WARNINGS + 2)]


def test_the_status_of_a_whole_run_is_over_the_whole_run() -> None:
    ledger, plan, peers = ledger_of(), plan_of(settings_of("limits.frames=100", "limits.episodes=5")), Peers()
    peers.join(b"x", hello_of("x"), 100.0)
    ledger.busy.working(101.0, 1.0)
    played(ledger, 1.0)
    recent = ledger.status(200.0, plan, peers)
    whole = ledger.status(200.0, plan, peers, whole_run=True)
    assert (recent.learner_busy, whole.learner_busy) == (0.0, pytest.approx(0.01))
    assert (whole.frames_left, whole.episodes_left, whole.seconds_left, whole.goal) == (80, 4, None, None)
    assert (whole.actors, whole.lag_mean, whole.lag_p95) == (1, 2.0, 2.0)
    assert not whole.reached
    ledger.state = "reached"
    assert ledger.status(200.0, plan, peers).reached
