"""Epsilon: its schedule and its effect on actions and their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from common.rl.action_masks import FORBIDDEN
from common.rl.action_spec import discrete
from common.rl.algorithms.exploration import EpsilonGreedy, Sampling, draw_finals

ENVS = 2000
VALUES = np.tile(np.array([0.0, 2.0, 1.0], np.float32), (ENVS, 1))


def greedy(final: float, frames: np.ndarray | None = None, anneal_frames: int = 0) -> EpsilonGreedy:
    rng = np.random.default_rng(0)
    return EpsilonGreedy(np.full(ENVS, final), anneal_frames=anneal_frames, frames=frames, rng=rng)


@pytest.mark.parametrize(
    ("frames", "expected"), [(-1.0, 1.0), (0.0, 1.0), (250.0, 0.8), (500.0, 0.6), (1000.0, 0.2), (1e9, 0.2)]
)
def test_epsilon_falls_linearly_from_one_to_its_final_value(frames: float, expected: float) -> None:
    clock = np.zeros(1, np.float32)
    one = greedy(0.2, clock, anneal_frames=1000)
    clock.fill(frames)  # it follows the run's frames
    assert one.epsilons == pytest.approx(np.full(ENVS, expected))


def test_without_annealing_it_is_final_at_once() -> None:
    assert greedy(0.3, np.zeros(1, np.float32)).epsilons.tolist() == [0.3] * ENVS


def test_final_values_are_drawn_per_environment_by_their_probabilities_and_the_seed() -> None:
    finals = [0.1, 0.01, 0.5]
    one, again, other = (draw_finals(finals, [0.4, 0.3, 0.3], ENVS, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert [float(np.mean(one == final)) for final in finals] == pytest.approx([0.4, 0.3, 0.3], abs=0.04)


def test_rounded_probabilities_are_good_enough() -> None:
    finals = draw_finals([0.1, 0.01, 0.5], [0.333333, 0.333333, 0.333334 - 1e-6], ENVS, np.random.default_rng(0))
    assert set(finals) == {0.1, 0.01, 0.5}


def test_actions_and_their_probabilities() -> None:
    one = greedy(0.3)
    actions, log_probs = one.draw(VALUES)
    assert np.mean(actions == 1) == pytest.approx(0.8, abs=0.03)
    assert np.mean(actions == 0) == pytest.approx(0.1, abs=0.03)
    assert np.exp(log_probs) == pytest.approx(np.where(actions == 1, 0.8, 0.1))
    assert log_probs.dtype == np.float32
    assert one.best(VALUES).tolist() == [1] * ENVS


def test_exploration_keeps_to_what_is_allowed() -> None:
    rows = np.tile(np.array([[FORBIDDEN, 2, 1, 3, FORBIDDEN, 0]], np.float32), (ENVS, 1))
    rows[::2] = [5, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]
    actions, log_probs = greedy(0.4).draw(rows)
    assert not actions[::2].any()
    assert not log_probs[::2].any(), "of one action it is certain"
    some = actions[1::2]
    assert [np.mean(some == action) for action in range(6)] == pytest.approx([0, 0.1, 0.1, 0.7, 0, 0.1], abs=0.04)
    assert np.exp(log_probs[1::2]) == pytest.approx(np.where(some == 3, 0.7, 0.1))


def test_of_values_that_are_no_numbers_any_action_is_one() -> None:
    actions, _ = greedy(1.0).draw(np.full((ENVS, 3), np.nan, np.float32))
    assert set(actions.tolist()) == {0, 1, 2}


def test_without_exploration_it_is_greedy_and_certain() -> None:
    actions, log_probs = greedy(0.0).draw(VALUES)
    assert actions.tolist() == [1] * ENVS
    assert not log_probs.any()


def test_a_policy_is_drawn_from() -> None:
    one = Sampling(discrete(3), np.random.default_rng(0))
    actions, log_probs = one.draw(VALUES)
    probabilities = np.exp(VALUES[0]) / np.exp(VALUES[0]).sum()
    assert np.mean(actions == 1) == pytest.approx(probabilities[1], abs=0.04)
    assert np.exp(log_probs) == pytest.approx(probabilities[actions], rel=1e-5)
    assert one.best(VALUES).tolist() == [1] * ENVS
