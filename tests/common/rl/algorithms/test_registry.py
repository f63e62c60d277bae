"""Every name of the settings is an algorithm."""

from typing import get_args, get_type_hints

import numpy as np
import pytest

from common.rl.action_spec import discrete
from common.rl.algorithms.exploration import TRAINED_EPSILON, EpsilonGreedy, Sampling
from common.rl.algorithms.registry import METHODS, exploration
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Algorithm, Exchange
from tests.helpers.losses import outputs_of
from tests.helpers.rollouts import BOX, make


def test_every_kind_of_the_settings_is_there() -> None:
    assert set(METHODS) == set(EXCHANGES) == set(get_args(get_type_hints(Algorithm)["kind"]))


def test_every_way_to_exchange_is_some_algorithm_s() -> None:
    allowed = {kind for exchanges in EXCHANGES.values() for kind in exchanges}
    assert allowed | {"auto"} == set(get_args(get_type_hints(Exchange)["kind"]))


def drawn(section: Algorithm, frames: np.ndarray | None, seed: int = 1) -> EpsilonGreedy:
    made = exploration(section, discrete(3), 2000, np.random.default_rng(seed), frames)
    assert isinstance(made, EpsilonGreedy)
    return made


def test_policies_are_sampled() -> None:
    for kind in ("a3c", "a2c", "vtrace", "ppo"):
        made = exploration(Algorithm(kind=kind), discrete(3), 1, np.random.default_rng(0), None)  # type: ignore[arg-type]
        assert isinstance(made, Sampling)


@pytest.mark.parametrize("kind", ["one-step-q", "n-step-q", "one-step-sarsa"])
def test_values_explore_by_the_epsilons_of_the_settings(kind: str) -> None:
    section = Algorithm(kind=kind, epsilon_finals=[0.3], epsilon_probabilities=[1.0], epsilon_frames=100)  # type: ignore[arg-type]
    frames = np.zeros(1, np.float32)
    made = drawn(section, frames)
    assert made.epsilons == pytest.approx(np.ones(2000))
    frames.fill(50)
    assert made.epsilons == pytest.approx(np.full(2000, 0.65))
    assert drawn(section, None).epsilons == pytest.approx(np.full(2000, TRAINED_EPSILON))


def test_a2c_and_vtrace_are_a3c_without_and_with_the_correction() -> None:
    model, rollout = make(BOX)
    outputs = outputs_of(model, rollout)
    for kind, correction in (("a2c", "none"), ("vtrace", "vtrace")):
        other = "vtrace" if correction == "none" else "none"
        found, same, different = (
            METHODS[name].loss(Algorithm(correction=given), outputs, rollout, model.network.action, None).derivative  # type: ignore[arg-type]
            for name, given in ((kind, other), ("a3c", correction), ("a3c", other))
        )
        assert np.array_equal(found, same)
        assert not np.allclose(found, different)
