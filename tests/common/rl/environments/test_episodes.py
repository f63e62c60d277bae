from __future__ import annotations

import numpy as np
import pytest

from common.rl.environments.episodes import Episode, EpisodeTracker
from common.rl.environments.make import make
from common.settings.sections import Environment


def flags(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def rewards(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_an_episode_is_what_happened_between_reset_and_end() -> None:
    tracker = EpisodeTracker(2)
    assert not tracker.update(rewards(1, 2), flags(0, 0), flags(0, 0), 1.0)
    assert tracker.valid.tolist() == [True, True]
    assert list(tracker.update(rewards(3, 4), flags(1, 0), flags(0, 0), 1.0)) == [Episode(4.0, 2, 2.0)]
    assert tracker.valid.tolist() == [False, True]
    assert not tracker.update(rewards(9, 5), flags(0, 0), flags(0, 0), 1.0), "the 9 is of a dummy step"
    assert tracker.valid.tolist() == [True, True]
    assert list(tracker.update(rewards(7, 6), flags(1, 0), flags(0, 1), 1.0)) == [
        Episode(7.0, 1, 1.0),
        Episode(17.0, 4, 4.0),
    ]
    assert tracker.valid.tolist() == [False, False]


def test_steps_that_a_full_host_drew_out_make_no_episode_longer() -> None:
    tracker = EpisodeTracker(1)
    for seconds in (0.3, 0.01, 5.0):
        tracker.update(rewards(1), flags(0), flags(0), seconds)
    (episode,) = tracker.update(rewards(1), flags(1), flags(0), 0.4)
    assert episode == Episode(4.0, 4, pytest.approx(0.04))
    tracker.update(rewards(0), flags(0), flags(0), 1e-6)
    (episode,) = tracker.update(rewards(1), flags(1), flags(0), 0.4)
    assert episode.seconds == pytest.approx(0.01), "a reset is no step"


def test_a_step_among_resets_counts_where_most_environments_play() -> None:
    tracker = EpisodeTracker(3)
    tracker.update(rewards(1, 1, 1), flags(0, 1, 1), flags(0, 0, 0), 1.0)
    tracker.update(rewards(1, 0, 0), flags(0, 0, 0), flags(0, 0, 0), 0.1)
    tracker.update(rewards(1, 1, 1), flags(0, 0, 1), flags(0, 0, 0), 1.0)
    tracker.update(rewards(1, 1, 0), flags(0, 0, 0), flags(0, 0, 0), 0.2)
    (episode,) = tracker.update(rewards(1, 1, 1), flags(1, 0, 0), flags(0, 0, 0), 1.0)
    assert episode == Episode(5.0, 5, pytest.approx(1.0))


def test_a_pace_is_part_of_the_duration() -> None:
    tracker = EpisodeTracker(1, pace=0.05)
    tracker.update(rewards(1), flags(0), flags(0), 0.001)  # what was left to wait after a long gradient
    (episode,) = tracker.update(rewards(1), flags(1), flags(0), 0.05)
    assert episode.seconds == pytest.approx(0.1)


def test_an_episode_both_terminated_and_truncated_is_one() -> None:
    tracker = EpisodeTracker(1)
    assert len(tracker.update(rewards(1), flags(1), flags(1), 1.0)) == 1


def test_not_a_number_drops_that_episode_and_no_other() -> None:
    tracker = EpisodeTracker(3)
    tracker.update(rewards(np.nan, np.inf, 1), flags(0, 0, 0), flags(0, 0, 0), 1.0)
    found = tracker.update(rewards(1, -np.inf, 1), flags(1, 1, 1), flags(0, 0, 0), 1.0)
    assert list(found) == [Episode(2.0, 2, 2.0)]
    tracker.update(rewards(0, 0, 0), flags(0, 0, 0), flags(0, 0, 0), 1.0)
    assert list(tracker.update(rewards(5, 6, 7), flags(1, 1, 1), flags(0, 0, 0), 1.0)) == [
        Episode(5.0, 1, 1.0),
        Episode(6.0, 1, 1.0),
        Episode(7.0, 1, 1.0),
    ]


def test_the_mask_may_be_kept() -> None:
    tracker = EpisodeTracker(1)
    first = tracker.valid
    tracker.update(rewards(1), flags(1), flags(0), 1.0)
    assert first.tolist() == [True]


def test_values_are_plain_numbers() -> None:
    tracker = EpisodeTracker(1)
    (episode,) = tracker.update(rewards(1), flags(1), flags(0), 1.0)
    assert (type(episode.episode_return), type(episode.length), type(episode.seconds)) == (float, int, float)


def test_agrees_with_a_count_by_hand_over_real_episodes() -> None:
    environments = make(Environment(id="CartPole-v1", max_episode_steps=20), num_envs=3, seed=0)
    environments.reset()
    tracker = EpisodeTracker(3)
    choices = np.random.default_rng(0).integers(2, size=(200, 3))
    found: list[Episode] = []
    lengths, expected, over = [0, 0, 0], [], [False] * 3
    for row in choices:
        valid = tracker.valid
        step = environments.step(row)
        found += tracker.update(step.rewards, step.terminated, step.truncated, 1.0)
        for copy in range(3):
            assert valid[copy] != over[copy]
            lengths[copy] = 0 if over[copy] else lengths[copy] + 1
            over[copy] = bool(step.terminated[copy] or step.truncated[copy])
            if over[copy]:
                expected.append(lengths[copy])
    assert len(expected) > 20
    assert [episode.length for episode in found] == expected
    assert [episode.episode_return for episode in found] == expected
