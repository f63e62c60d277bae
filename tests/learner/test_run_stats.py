from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from common.rl.episode import Episode
from learner.meters import Rate
from learner.peer import Peer
from learner.run_stats import WARNINGS, Counters, RunStats
from learner.scaling import Decision
from tests.helpers.run import gradient_of, hello_of, run_of, settings_of


def stats_of(counters: Counters | None = None, window: int = 3, now: float = 100.0) -> RunStats:
    return RunStats(counters or Counters(), settings_of(f"limits.window={window}", "environment.num_envs=1"), now)


def played(stats: RunStats, *returns: float, now: float = 101.0, **changed: Any) -> None:
    header = gradient_of(episodes=[(value, 10, 0.5) for value in returns], **changed)
    peer = Peer(hello_of(), now, Rate(5.0, now), claimed_steps=1000)
    stats.received(now, 1000)
    stats.lagged(now, peer, 2)
    stats.stepped({}, stats.counters.frames)
    stats.played(now, peer, header)
    stats.applied(peer, header.statistics)
    assert (peer.frames, peer.gradients, peer.lag) == (header.steps, 1, 2.0)


def restarted(stats: RunStats, now: float, **changed: Any) -> RunStats:
    """By way of a checkpoint's JSON, on another clock."""
    saved = json.loads(json.dumps(stats.saved(now)))
    return stats_of(msgspec.convert(saved, Counters), now=5000.0, **changed)


def test_counters_add_up() -> None:
    stats = stats_of()
    stats.joined(4)
    stats.joined(3)
    played(stats, 1.0, 2.0)
    played(stats, 3.0)
    stats.sent_weights(101.0, 500)
    stats.sent_actions(101.0, 50)
    counters = stats.counters
    assert (counters.frames, counters.emulator_frames, counters.episodes) == (40, 160, 3)
    assert (counters.gradients, counters.version, counters.actors_peak) == (2, 2, 4)
    assert (counters.gradient_bytes, counters.weight_bytes, counters.action_bytes) == (2000, 500, 50)
    assert stats.seconds(130.0) == 30.0


def test_all_that_is_saved_goes_on_after_a_restart() -> None:
    stats = stats_of()
    played(stats, 1.0, 2.0, 30.0, 40.0, 20.0)
    assert stats.window.best_return == pytest.approx(30.0)
    played(stats, 3.0)
    stats.joined(9)
    stats.sent_weights(101.0, 77)
    stats.counters.stale, stats.counters.refused, stats.counters.duplicates = 3, 2, 1
    stats.decided(Decision(7, "more", crossed=1))
    again = restarted(stats, 130.0)
    before, after = msgspec.to_builtins(stats.counters), msgspec.to_builtins(again.counters)
    for name in set(before) - {"seconds", "recent", "recent_sources", "best_return", "lowest_return"}:
        assert after[name] == before[name], name
    assert again.decision.wanted == 7
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
    stats = stats_of()
    played(stats, 1.0, 2.0, 3.0, 4.0)
    again = restarted(stats, 130.0, window=window)
    assert again.counters.episodes == again.window.episodes == 4
    played(again, 5.0)
    assert again.counters.episodes == 5


def test_a_resumed_run_knows_who_played_what() -> None:
    """A mean of episodes that others would judge differently is the same after it."""
    stats = stats_of(window=60)
    stats.window.alone = False
    for number in range(60):
        stats.window.add(Episode(1e9 if number % 3 == 0 else 40.0 + number, 10, 1.0), "lab"[number % 3])
    again = restarted(stats, 130.0, window=60)
    assert again.window.names == stats.window.names
    again.window.alone = False
    assert 40.0 < (again.window.mean_return or 0.0) < 110.0


def test_without_episodes_there_is_no_mean() -> None:
    stats = stats_of()
    assert stats.saved(101.0)["recent"] == []
    assert restarted(stats, 101.0).window.mean_return is None


def test_episodes_that_are_no_numbers_are_not_counted_and_not_saved() -> None:
    stats = stats_of()
    played(stats, math.nan, math.inf, -math.inf, 1e300, 4.0)
    assert (stats.counters.episodes, stats.window.mean_return) == (1, 4.0)
    assert stats.saved(101.0)["recent"] == [[4.0, 10, 0.5]]


def test_losses_are_those_named_and_stay_finite() -> None:
    stats = stats_of()
    played(stats, statistics={"entropy": 0.5, "spam": 1.0, "ratio": math.nan})
    for value in (1e308, -1e308, math.inf):
        played(stats, statistics={"entropy": value})
    played(stats, statistics={"entropy": 0.7, "value_loss": 2.0})
    losses = stats.figures(102.0)["losses"]
    assert losses == {"entropy": pytest.approx(0.5 + 0.02 * 0.2), "value_loss": 2.0}


def test_every_figure_is_the_one_that_its_name_says() -> None:
    """All of them different, and those of the last seconds others than those of the whole run."""
    stats = stats_of(now=100.0)
    peer = Peer(hello_of(), 100.0, Rate(5.0, 100.0), claimed_steps=10_000)
    for _ in range(1024):
        stats.lagged(101.0, peer, 9)
    for lag in [1] * 900 + [2] * 124:
        stats.lagged(151.0, peer, lag)
    stats.busy.working(120.0, 12.0)
    stats.busy.working(151.0, 1.0)
    stats.received(151.0, 700)
    stats.sent_weights(151.0, 300)
    stats.sent_actions(151.0, 500)
    episodes = [(1.0, 40, 2.0), (2.0, 41, 3.0), (6.0, 42, 4.0), (1.0, 43, 6.0)]
    stats.played(151.0, peer, gradient_of(steps=250, emulator_frames=1000, episodes=episodes))
    stats.applied(peer, {"entropy": 0.5})
    stats.joined(4)
    for count, event in ((2, stats.stale), (3, stats.unknown)):
        for _ in range(count):
            event(peer)
    for _ in range(4):
        stats.refused(peer, "why not")
    for _ in range(5):
        stats.duplicate()
    for _ in range(6):
        stats.stepped({}, 250)
    stats.decided(Decision(7, "because"))
    recent, whole = stats.figures(152.0), stats.figures(152.0, whole_run=True)
    assert {name: recent[name] for name in ("frames", "emulator_frames", "episodes", "version", "gradients")} == {
        "frames": 250, "emulator_frames": 1000, "episodes": 4, "version": 6, "gradients": 1,
    }  # fmt: skip
    assert {name: recent[name] for name in ("stale", "unknown", "refused", "duplicates", "actors_peak")} == {
        "stale": 2, "unknown": 3, "refused": 4, "duplicates": 5, "actors_peak": 4,
    }  # fmt: skip
    assert {name: recent[name] for name in ("gradient_bytes", "weight_bytes", "action_bytes")} == {
        "gradient_bytes": 700, "weight_bytes": 300, "action_bytes": 500,
    }  # fmt: skip
    assert (recent["mean_return"], recent["best_return"]) == (3.0, 3.0)
    assert (recent["episode_length"], recent["episode_seconds"]) == (42.0, pytest.approx(13 / 3))
    assert recent["seconds"] == 52.0
    assert recent["frames_per_second"] == pytest.approx(250 / 5, rel=0.1)
    assert recent["gradients_per_second"] == pytest.approx(1024 / 5, rel=0.1)
    assert recent["bytes_per_second"] == pytest.approx(1500 / 5, rel=0.1)
    assert (recent["lag_mean"], recent["lag_p95"]) == (pytest.approx(1 + 124 / 1024), 2.0)
    assert (whole["lag_mean"], whole["lag_p95"]) == (pytest.approx((9 * 1024 + 900 + 248) / 2048), 9.0)
    assert (recent["learner_busy"], whole["learner_busy"]) == (pytest.approx(0.2, rel=0.1), pytest.approx(13 / 52))
    assert (recent["actors_wanted"], recent["why"], recent["losses"]) == (7, "because", {"entropy": 0.5})
    differing = {name for name in recent if recent[name] != whole[name]}
    assert differing == {"lag_mean", "lag_p95", "learner_busy"}


def test_policies_see_what_was_measured_since_the_last_actor_came() -> None:
    stats = stats_of()
    peers = [Peer(hello_of(name), 100.0, Rate(5.0, 100.0), claimed_steps=1000) for name in ("a", "b")]

    def message(now: float, lag: int, *peers: Peer) -> None:
        for peer in peers:
            stats.lagged(now, peer, lag, 2)
            stats.stepped({}, stats.counters.frames)
            stats.played(now, peer, gradient_of(count=2, episodes=[(1.0, 10, 0.5)]))

    message(100.0, 9, peers[0])
    assert stats.measurement(101.0, 1).seconds == 0.0
    for second in range(1, 9):
        stats.busy.working(100.0 + second, 0.25)
        message(100.0 + second, 2, *peers)
        measurement = stats.measurement(100.0 + second, 2)
    assert [peer.plays for peer in peers] == [True, True]
    assert (measurement.actors, measurement.wanted, measurement.episodes_since) == (2, 2, 17)
    assert (measurement.mean_episode_seconds, measurement.mean_episode_length) == (0.5, 10.0)
    assert measurement.lag_mean == 2.0, "not those of the time with one actor"
    assert (measurement.rollouts_per_second, measurement.steps_per_second) == (
        pytest.approx(4.4),
        pytest.approx(2.4),
    ), "in five seconds, from the settling message on"
    assert measurement.learner_busy == pytest.approx(0.25)
    assert measurement.frames_per_second == pytest.approx([40.0] * 5, rel=0.01)


def test_the_first_episodes_are_a_measure_for_the_whole_run() -> None:
    stats = stats_of()
    played(stats, *[1.0] * 7)
    assert stats.counters.first_length is None, "of the two actors with an environment each that the run begins with"
    played(stats, 1.0)
    assert stats.counters.first_length == 10.0
    again = restarted(stats, 130.0)
    played(again, *[1.0] * 50, steps=1000)
    assert again.measurement(5001.0, 1).first_length == 10.0


def test_warnings_are_the_newest_few_each_once() -> None:
    stats = stats_of()
    for number in range(WARNINGS + 2):
        stats.warn(f"warning {number}")
        stats.warn(f"warning {number}")
    assert stats.figures(101.0)["warnings"] == [f"warning {number}" for number in range(2, WARNINGS + 2)]


def test_what_goes_wrong_is_booked_for_the_run_and_for_the_peer() -> None:
    stats, peer = stats_of(), Peer(hello_of(), 100.0, Rate(5.0, 100.0))
    stats.stale(peer)
    stats.refused(peer, "why")
    stats.duplicate()
    counters = stats.counters
    assert (counters.stale, counters.refused, counters.duplicates) == (peer.stale, peer.refused, 1) == (1, 1, 1)
    assert stats.figures(101.0)["warnings"] == ["why"]


def test_finished_episodes_have_no_more_steps_than_were_played() -> None:
    """An actor that joined in the middle of an episode cannot show where its first steps are: it is left out."""
    stats, peer = stats_of(window=10), Peer(hello_of(), 100.0, Rate(5.0, 100.0))
    for steps, lengths in ((20, [15, 10]), (20, [20, 5]), (20, [10**9]), (60, [60])):
        peer.claimed_steps += steps
        stats.played(101.0, peer, gradient_of(steps=steps, episodes=[(float(one), one, 0.1) for one in lengths]))
    assert [episode.length for episode in stats.window.kept] == [15, 20, 5, 60]
    assert stats.counters.episodes == 4


def test_behind_a_relay_each_actor_is_a_source_of_its_own() -> None:
    stats = stats_of(window=20)
    stats.joined(3)
    relay = Peer(hello_of("site", "relay"), 101.0, Rate(5.0, 101.0), claimed_steps=10_000)
    for turn in range(20):
        episodes = [(1.0, 10, 0.5), (1.0, 10, 0.5), (900.0 if turn > 10 else 1.0, 10, 0.5)]
        header = gradient_of(steps=30, summed=True, episodes=episodes, players=[0, 1, 2])
        stats.played(101.0 + turn, relay, header)
    assert set(stats.window.sources) == {"site#0", "site#1", "site#2"}
    assert not stats.window.alone
    assert stats.score == pytest.approx(1.0), "nobody confirms the third"


def test_a_site_of_one_actor_is_believed_as_that_actor_would_be() -> None:
    stats = stats_of()
    stats.joined(1)
    relay = Peer(hello_of("site", "relay"), 101.0, Rate(5.0, 101.0), claimed_steps=10_000)
    header = gradient_of(summed=True, episodes=[(5.0, 5, 0.5)] * 3, players=[7] * 3)
    stats.played(101.0, relay, header)
    assert stats.window.alone and stats.score == pytest.approx(5.0)
    stats.played(102.0, relay, gradient_of(summed=True))
    assert stats.window.alone, "a sum in which no episode ended tells of nobody"


def test_the_time_of_day_is_that_of_the_last_turn() -> None:
    run = run_of(settings_of())
    run.stats.turned(100.0, 0.5, 1_000_000.0)
    assert run.status(101.0).time == 1_000_001.0
    run.stats.turned(102.0, 0.5, 2_000_000.0)  # the clock was set
    assert run.status(102.0).time == 2_000_000.0
