from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from learner.health import HOLD_SECONDS, NO_EPISODE_SECONDS, Health, VitalSigns


def figures(second: int, **changed: Any) -> VitalSigns:
    """Of a healthy run."""
    usual: dict[str, Any] = {
        "mean_return": 100.0,
        "best_return": 110.0,
        "lowest_return": 0.0,
        "return_error": 1.0,
        "entropy": 0.6,
        "explained_variance": 0.8,
        "frames": 100 * second,
        "episodes": second,
        "applied": 10 * second,
        "unused": second,
        "not_finite": 0,
    }
    return VitalSigns(**(usual | changed))


def begun() -> Health:
    """Of a run that was healthy for two minutes."""
    health = Health()
    for second in range(120):
        assert health.diagnose(float(second), figures(second)) == []
    return health


SYMPTOMS: list[tuple[dict[str, Any], str]] = [
    ({"mean_return": 20.0}, "far below its best (20, it was 110): try a smaller optimizer.learning_rate"),
    ({"mean_return": 20.0, "entropy": 0.001}, "no entropy left (0.001): it tries nothing new"),
    (
        {"explained_variance": -2e-4},
        "the same whatever is observed (explained variance -0.0002): the network learns nothing",
    ),
    ({"applied": 1190, "unused": 10**6}, "hardly anything that actors send is used"),
]


@pytest.mark.parametrize(("changed", "text"), SYMPTOMS)
def test_a_symptom_is_told_once_it_lasts_with_what_to_try(changed: dict[str, Any], text: str) -> None:
    health = begun()
    told: list[list[str]] = []
    for second in range(120, 320):
        grown = {key: value + second if key == "unused" else value for key, value in changed.items()}
        told.append(health.diagnose(float(second), figures(second, **grown)))
    if "unused" in changed:  # counts: a minute of nothing but refusals
        assert any(text in line for lines in told for line in lines)
    else:
        assert told[int(HOLD_SECONDS) - 2] == []
        assert all(any(text in line for line in lines) for lines in told[int(HOLD_SECONDS) + 1 :])


def test_a_difference_that_may_be_chance_is_no_fall() -> None:
    """Of a run that has just begun, for example: its best and its lowest mean are near each other."""
    for error, fallen in ((1.0, True), (30.0, False)):
        health, told = begun(), [""]
        for second in range(120, 320):
            told = health.diagnose(float(second), figures(second, mean_return=20.0, return_error=error))
        assert (bool(told), health.fallen) == (fallen, fallen)


def test_it_has_fallen_while_that_is_told_and_true() -> None:
    health = begun()
    for second in range(120, 240):
        health.diagnose(float(second), figures(second, mean_return=20.0))
    assert health.fallen
    assert health.diagnose(240.0, figures(240)) != []
    assert not health.fallen


def test_it_does_not_flap() -> None:
    health, told = begun(), []
    for second in range(120, 600):
        worse = second % 50 < 45  # never better for long
        told.append(bool(health.diagnose(float(second), figures(second, mean_return=20.0 if worse else 100.0))))
    assert sum(before is not after for before, after in pairwise(told)) <= 1


def test_a_symptom_that_passed_is_not_told_for_ever() -> None:
    health = begun()
    for second in range(120, 240):
        health.diagnose(float(second), figures(second, mean_return=20.0))
    assert health.diagnose(240.0, figures(240)) == ["the mean return is far below its best"]
    for second in range(241, 310):
        last = health.diagnose(float(second), figures(second))
    assert last == []


def test_a_solved_policy_without_entropy_is_well() -> None:
    health = begun()
    for second in range(120, 400):
        assert health.diagnose(float(second), figures(second, mean_return=110.0, entropy=0.0)) == []


def test_frames_without_an_episode_are_told_and_a_run_that_stands_still_is_not() -> None:
    for frames in (100, 0):
        health, last = Health(), [""]
        for second in range(0, int(NO_EPISODE_SECONDS) + 150, 5):
            last = health.diagnose(float(second), figures(second, episodes=3, frames=frames * second, unused=0))
        assert any("no episode has ended for long" in line for line in last) == bool(frames)


def test_time_in_which_nobody_plays_is_no_time_without_an_episode() -> None:
    health, told = Health(), []
    pause = int(NO_EPISODE_SECONDS) + 60
    for second in range(0, pause + 300, 5):
        frames = max(0, second - pause)
        told += health.diagnose(float(second), figures(second, episodes=0, frames=frames, unused=0, applied=frames))
    assert told == []


def test_gradients_that_are_not_finite_are_told() -> None:
    health, last = begun(), [""]
    for second in range(120, 220):
        last = health.diagnose(float(second), figures(second, not_finite=second))
    assert last == ["the loss is not finite: try a smaller optimizer.learning_rate or algorithm.max_grad_norm"]
