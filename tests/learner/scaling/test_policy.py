from __future__ import annotations

import pytest

from common.settings.sections import Scaling
from learner.scaling import Decision, Scaler, start
from tests.helpers.fleet import SimulatedFleet
from tests.helpers.measurements import measured

GROWING = Scaling(policy="episode-duration", unit="seconds", minimum=2, maximum=5)
LONG = {"mean_episode_seconds": 25.0, "mean_episode_length": 25.0, "episodes_since": 5000}


def test_fixed_starts_and_stays_and_comes_back_from_elsewhere() -> None:
    section = Scaling(policy="fixed", minimum=3, maximum=3)
    assert start(section) == Decision(3, "fixed: 3 actors")
    for actors in (2, 3, 5):
        assert Scaler(section).decide(0.0, measured(actors=actors, learner_busy=1.0)).wanted == 3


def test_other_policies_start_from_the_minimum() -> None:
    assert start(GROWING) == Decision(2, "from the minimum: 2 actors")


@pytest.mark.parametrize("overloaded", [{"learner_busy": 0.9}, {"lag_mean": 30.0}])
def test_an_overloaded_learner_holds_an_addition_until_there_is_room(overloaded: dict[str, float]) -> None:
    scaler = Scaler(GROWING)
    held = scaler.decide(0.0, measured(**(LONG | {"actors": 2} | overloaded)))
    assert (held.wanted, held.held) == (2, "load")
    assert held.why.startswith("held at 2 actors: ")
    assert "; else mean episode 25.0 s > 20 s, " in held.why
    assert scaler.decide(5.0, measured(**(LONG | {"actors": 2}))).wanted == 3


def test_fewer_actors_pass_whatever_the_load() -> None:
    decision = Scaler(GROWING).decide(0.0, measured(actors=7, learner_busy=1.0))
    assert decision == Decision(5, "bounds 2 to 5: 7 -> 5 actors")


@pytest.mark.parametrize(("wanted", "expected"), [(1, 4), (20, 8), (5, 5)])
def test_a_run_resumed_with_other_bounds_goes_to_them(wanted: int, expected: int) -> None:
    section = Scaling(policy="episode-duration", minimum=4, maximum=8)
    decision = Scaler(section).decide(0.0, measured(actors=0, wanted=wanted, seconds=0.0))
    assert decision.wanted == expected
    assert ("bounds 4 to 8" in decision.why) == (wanted != expected)


def test_a_linear_addition_that_is_held_back_uses_no_crossing() -> None:
    section = Scaling(policy="episode-duration", unit="seconds", form="linear", minimum=2, maximum=5)
    scaler = Scaler(section)
    assert scaler.decide(0.0, measured(**(LONG | {"actors": 2, "learner_busy": 0.9}))).crossed == 0
    assert scaler.decide(1.0, measured(**(LONG | {"actors": 2}))).crossed == 1


@pytest.mark.parametrize("policy", ["load", "episode-duration"])
def test_no_policy_adds_to_a_learner_that_is_too_busy(policy: str) -> None:
    fleet = SimulatedFleet(
        (f"scaling.policy={policy}", "scaling.minimum=2", "scaling.maximum=20", "environment.num_envs=1"),
        rollout_seconds=0.05,
        learner_seconds=0.01,
        rollout_steps=200,
        episode_length=lambda episodes: 22.0 + episodes / 10,
    )
    numbers = fleet.play(200)
    assert max(numbers) <= 8 and numbers[-1] == numbers[-60]
    assert max(numbers) >= 3
    assert "learner busy" in fleet.why
