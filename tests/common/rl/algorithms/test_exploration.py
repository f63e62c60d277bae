"""Epsilon: its schedule, its spread, and what it does to actions and their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from common.rl.action_spec import discrete
from common.rl.algorithms.exploration import SHOWN_EPSILON, Acting, EpsilonGreedy, Sampling
from common.settings.sections import Algorithm

COPIES = 2000
VALUES = np.tile(np.array([0.0, 2.0, 1.0], np.float32), (COPIES, 1))


def acting(
    kind: type[Acting] = EpsilonGreedy, *, copies: int = COPIES, frames: float | None = 0.0, seed: int = 0, **set_: Any
) -> Acting:
    clock = None if frames is None else torch.tensor([frames])
    return kind(Algorithm(**set_), discrete(3), copies, np.random.default_rng(seed), clock)


def greedy(**given: Any) -> EpsilonGreedy:
    one = acting(**given)
    assert isinstance(one, EpsilonGreedy)
    return one


@pytest.mark.parametrize(
    ("frames", "expected"), [(-1.0, 1.0), (0.0, 1.0), (250.0, 0.8), (500.0, 0.6), (1000.0, 0.2), (1e9, 0.2)]
)
def test_epsilon_falls_linearly_from_one_to_its_final_value(frames: float, expected: float) -> None:
    one = greedy(frames=frames, epsilon_finals=[0.2], epsilon_probabilities=[1.0], epsilon_frames=1000)
    assert one.epsilons == pytest.approx(np.full(COPIES, expected))


def test_it_follows_the_run_s_frames() -> None:
    clock = torch.zeros(1)
    section = Algorithm(epsilon_finals=[0.0], epsilon_probabilities=[1.0], epsilon_frames=100)
    one = EpsilonGreedy(section, discrete(3), 1, np.random.default_rng(0), clock)
    assert one.epsilons.tolist() == [1.0]
    clock.fill_(75)
    assert one.epsilons.tolist() == [0.25]


def test_without_annealing_it_is_final_at_once() -> None:
    one = greedy(epsilon_finals=[0.3], epsilon_probabilities=[1.0], epsilon_frames=0)
    assert one.epsilons.tolist() == [0.3] * COPIES


def test_final_values_are_drawn_per_copy_by_their_probabilities_and_the_seed() -> None:
    one, again, other = greedy(seed=1), greedy(seed=1), greedy(seed=2)
    assert np.array_equal(one.finals, again.finals)
    assert not np.array_equal(one.finals, other.finals)
    shares = [float(np.mean(one.finals == final)) for final in (0.1, 0.01, 0.5)]
    assert shares == pytest.approx([0.4, 0.3, 0.3], abs=0.04)


def test_rounded_probabilities_are_good_enough() -> None:
    one = greedy(epsilon_probabilities=[0.333333, 0.333333, 0.333334 - 1e-6])
    assert set(one.finals) == {0.1, 0.01, 0.5}


def test_actions_and_their_probabilities() -> None:
    one = greedy(epsilon_finals=[0.3], epsilon_probabilities=[1.0], epsilon_frames=0)
    actions, log_probs = one.draw(VALUES)
    assert np.mean(actions == 1) == pytest.approx(0.8, abs=0.03)
    assert np.mean(actions == 0) == pytest.approx(0.1, abs=0.03)
    assert np.exp(log_probs) == pytest.approx(np.where(actions == 1, 0.8, 0.1))
    assert log_probs.dtype == np.float32
    assert one.best(VALUES).tolist() == [1] * COPIES


def test_without_exploration_it_is_greedy_and_certain() -> None:
    actions, log_probs = greedy(epsilon_finals=[0.0], epsilon_probabilities=[1.0], epsilon_frames=0).draw(VALUES)
    assert actions.tolist() == [1] * COPIES
    assert not log_probs.any()


def test_a_trained_agent_explores_a_little() -> None:
    one = greedy(frames=None)
    assert one.epsilons.tolist() == [SHOWN_EPSILON] * COPIES
    assert np.mean(one.draw(VALUES)[0] != 1) == pytest.approx(SHOWN_EPSILON * 2 / 3, abs=0.015)


def test_a_policy_is_drawn_from() -> None:
    one = acting(Sampling)
    actions, log_probs = one.draw(VALUES)
    probabilities = np.exp(VALUES[0]) / np.exp(VALUES[0]).sum()
    assert np.mean(actions == 1) == pytest.approx(probabilities[1], abs=0.04)
    assert np.exp(log_probs) == pytest.approx(probabilities[actions], rel=1e-5)
    assert one.best(VALUES).tolist() == [1] * COPIES
