"""What each algorithm sends, and what `auto` begins with."""

import pytest

from common.settings.exchanges import EXCHANGES, is_measured, resolve
from tests.helpers.run import settings_of


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("a3c", "gradients"), ("a2c", "trajectories"), ("vtrace", "trajectories"), ("ppo", "trajectories")],
)
def test_auto_is_what_is_usual_with_the_algorithm(algorithm: str, expected: str) -> None:
    assert resolve("auto", algorithm) == expected
    assert all(resolve(kind, algorithm) == kind for kind in EXCHANGES[algorithm])


def test_a3c_is_measured_as_it_is() -> None:
    assert is_measured(settings_of())


@pytest.mark.parametrize(
    "assignment",
    [
        *("algorithm.kind=a2c", "algorithm.kind=ppo", "algorithm.kind=vtrace", "algorithm.kind=n-step-q"),
        *("exchange.kind=gradients", "exchange.kind=trajectories", "exchange.kind=actions"),
        *("staleness.policy=synchronous", "staleness.policy=compensate", "algorithm.whole_episodes=true"),
        *("exchange.codec=int8", "exchange.codec=top-k", "exchange.error_feedback=true"),
        "exchange.credit=0",
    ],
)
def test_what_is_set_or_could_not_do_with_trajectories_is_not_measured(assignment: str) -> None:
    extra = ("environment.num_envs=1",) if "whole" in assignment else ()
    extra = ("algorithm.refresh=false", "exchange.accumulate=1") if "compensate" in assignment else extra
    extra = ("exchange.codec=int8",) if "feedback" in assignment else extra
    assert not is_measured(settings_of(assignment, *extra))
