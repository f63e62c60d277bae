from __future__ import annotations

import math
import random

import pytest

from common.rl.episode import Episode
from learner.episode_window import AWAY_SECONDS, ENOUGH, RECENT, SOURCES, EpisodeWindow
from learner.meters import LARGEST_FIGURE


def episode(value: float, length: int = 1) -> Episode:
    return Episode(value, length, 0.1)


def window_of(size: int = 20) -> EpisodeWindow:
    window = EpisodeWindow(size)
    window.alone = False
    return window


def test_episodes_are_averaged_over_the_last_ones() -> None:
    window = EpisodeWindow(3)
    assert (window.mean_return, window.mean_length, window.mean_seconds, window.score) == (None, None, None, None)
    for number in range(1, 6):
        window.add(Episode(float(number), 10 * number, 0.5 * number))
    assert window.episodes == 5
    assert (window.mean_return, window.mean_length, window.mean_seconds, window.score) == (4.0, 40.0, 2.0, 4.0)


def test_who_has_left_does_not_hold_back_the_score_for_ever() -> None:
    window = window_of()
    for number in range(RECENT):
        for guest in ("guest-0", "guest-1"):
            window.add(episode(50.0 + number % 3), guest)
    stay = {"here-0", "here-1"}

    def play(now: float) -> float | None:
        window.look(now, stay)
        for name in sorted(stay):
            for _ in range(RECENT):
                window.add(episode(500.0), name)
        return window.score

    assert (play(0.0) or 0.0) < 60.0
    assert (play(AWAY_SECONDS) or 0.0) < 60.0
    assert play(AWAY_SECONDS + 1.0) == 500.0


def test_an_actor_that_is_soon_back_is_no_other_source() -> None:
    window = window_of()
    for _ in range(RECENT):
        for name in ("a", "b", "liar"):
            window.add(episode(9e9 if name == "liar" else 50.0), name)
    for now, present in ((0.0, "ab"), (AWAY_SECONDS, "b"), (AWAY_SECONDS + 1.0, "ab"), (2 * AWAY_SECONDS, "b")):
        window.look(now, {*present, "liar"})
        window.add(episode(9e9), "liar")
        assert window.score == 50.0


def test_best_is_of_full_windows_only() -> None:
    window = EpisodeWindow(2)
    window.add(episode(100.0))
    assert (window.full, window.best_return) == (False, None)
    window.add(episode(0.0))
    assert (window.full, window.best_return) == (True, 50.0)
    window.add(episode(0.0))
    assert (window.score, window.best_return) == (0.0, 50.0)


def test_an_earlier_epoch_is_gone_on_with() -> None:
    window = EpisodeWindow(1, episodes=700, best_return=9.0, lowest_return=-1.0)
    window.add(episode(3.0))
    assert (window.episodes, window.best_return, window.lowest_return) == (701, 9.0, -1.0)
    window.add(episode(-4.0))
    assert (window.best_return, window.lowest_return) == (9.0, -4.0)


def test_a_resumed_window_has_the_score_it_had() -> None:
    """It was confirmed by episodes that are kept no longer."""
    window = EpisodeWindow(3)
    window.resume([episode(value) for value in (1.0, 2.0, 9.0)], ["a", "b"], score=3.0)
    assert (window.score, window.mean_return, window.names) == (3.0, 4.0, ["a", "b", ""])
    window.add(episode(1.0), "a")
    assert window.score == 4.0


@pytest.mark.parametrize(("size", "score"), [(2, 5.5), (4, None)])
def test_a_window_that_is_resumed_with_another_size_has_a_score_of_its_own(size: int, score: float | None) -> None:
    window = EpisodeWindow(size)
    window.resume([episode(value) for value in (1.0, 2.0, 9.0)], (), score=3.0)
    assert window.score == score


def test_the_standard_error_is_of_the_returns_in_the_window() -> None:
    window = EpisodeWindow(4)
    window.add(episode(50.0))
    assert window.return_error == 0.0
    for value in (1.0, 3.0, 1.0, 3.0):
        window.add(episode(value))
    assert window.return_error == pytest.approx(math.sqrt(4 / 3 / 4))


@pytest.mark.parametrize(
    ("episode_return", "length", "seconds"),
    [
        (math.nan, 1, 1.0),
        (math.inf, 1, 1.0),
        (-math.inf, 1, 1.0),
        (2 * LARGEST_FIGURE, 1, 1.0),
        (1.0, -1, 1.0),
        (1.0, 1, math.nan),
        (1.0, 1, math.inf),
        (1.0, 1, -1.0),
    ],
)
def test_impossible_episodes_never_enter(episode_return: float, length: int, seconds: float) -> None:
    window = EpisodeWindow(2)
    window.add(Episode(5.0, 7, 1.0))
    window.add(Episode(episode_return, length, seconds))
    assert (window.episodes, window.mean_return, window.mean_length, window.mean_seconds) == (1, 5.0, 7.0, 1.0)


def test_means_do_not_drift() -> None:
    generator = random.Random(0)
    window = EpisodeWindow(100)
    for _ in range(5000):
        window.add(episode(generator.uniform(-1.0, 1.0) * 10 ** generator.randint(-3, 12)))
    for _ in range(100):
        window.add(episode(0.1))
    assert window.mean_return == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("lie", [1e9, -1e9, 1e29])
@pytest.mark.parametrize("honest", [2, 9])
def test_one_of_several_sources_moves_the_mean_no_further_than_the_others_episodes_reach(
    lie: float, honest: int
) -> None:
    generator, window = random.Random(0), window_of(100)
    for _ in range(40):
        for number in range(honest):
            window.add(episode(generator.gauss(50.0, 20.0)), f"honest-{number}")
        for _ in range(10):
            window.add(Episode(lie, 10**8, 1e8), "liar")
    assert window.mean_return is not None and window.score is not None
    assert -20 < window.mean_return < 130
    assert window.score < 85 and window.best_return is not None and window.best_return < 85
    assert window.mean_length is not None and window.mean_length <= 10**8


def test_who_floods_the_window_with_returns_that_are_possible_does_not_reach_the_goal() -> None:
    """CartPole: the others are at 200 of 500 on average, one claims 500 for hundreds of episodes."""
    generator, window = random.Random(1), window_of(100)
    for _ in range(30):
        for number in range(3):
            window.add(episode(min(500.0, generator.expovariate(1 / 200))), f"honest-{number}")
        for _ in range(50):
            window.add(episode(500.0), "liar")
        if window.score is not None:
            assert window.score < 475


@pytest.mark.parametrize("sources", [1, 2, 3, 10, 40])
def test_honest_sources_have_their_plain_mean(sources: int) -> None:
    generator, window = random.Random(2), window_of(100)
    window.alone = sources == 1
    for number in range(3000):
        window.add(episode(generator.gauss(number / 10, 30.0)), str(number % sources))
    plain = math.fsum(one.episode_return for one in window.kept) / 100
    assert window.mean_return == pytest.approx(plain, abs=1.0)
    assert window.score == pytest.approx(plain, abs=3.0)


@pytest.mark.parametrize("earlier", [("c",), ("a",), ("a", "b")], ids=["another actor", "one actor", "both actors"])
def test_an_agent_that_gets_better_within_a_window_is_not_said_to_be_better_than_it_was(
    earlier: tuple[str, ...],
) -> None:
    window = window_of(100)
    for number in range(60):
        window.add(episode(50.0 + number), earlier[number % len(earlier)])
    for number in range(40):
        window.add(episode(500.0), "ab"[number % 2])
    plain = math.fsum(one.episode_return for one in window.kept) / 100
    assert window.mean_return == window.score == pytest.approx(plain, abs=1.0)


def test_many_sources_confirm_what_an_agent_that_learns_fast_has_reached() -> None:
    """Of forty, each has two or three episodes in the window; twenty of each go eight windows back."""
    generator, window = random.Random(4), window_of(100)
    for number in range(2000):
        window.add(episode(generator.gauss(number / 4, 30.0)), str(number % 40))
        if number >= 500:
            mean, score = window.mean_return, window.score
            assert mean is not None and score is not None
            assert mean - 30.0 < score <= mean


def test_a_slow_source_confirms_a_fast_one() -> None:
    generator, window = random.Random(3), window_of(100)
    for number in range(4000):
        window.add(episode(generator.gauss(480.0, 20.0)), "slow" if number % 50 == 0 else "fast")
    assert window.score == pytest.approx(480.0, abs=8.0)


def test_without_a_second_source_there_is_no_score_until_the_first_is_alone() -> None:
    window = window_of(10)
    for _ in range(30):
        window.add(episode(500.0), "x")
    assert (window.mean_return, window.score, window.best_return) == (500.0, None, None)
    for _ in range(ENOUGH):
        assert window.score is None
        window.add(episode(490.0), "y")
    assert window.score is not None and 489 < window.score <= 496
    lone = window_of(10)
    for _ in range(30):
        lone.add(episode(500.0), "x")
    lone.alone = True
    lone.add(episode(500.0), "x")
    assert lone.score == 500.0


def test_it_remembers_a_bounded_number_of_sources() -> None:
    window = window_of(10)
    for number in range(3 * SOURCES):
        window.add(episode(1.0), str(number))
    assert len(window._sources) == SOURCES
