"""What each algorithm sends, and what `auto` stands for."""

import pytest

from common.algorithms.exchanges import EXCHANGES, resolve


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("a3c", "gradients"), ("a2c", "trajectories"), ("vtrace", "trajectories"), ("ppo", "trajectories")],
)
def test_auto_is_what_is_usual_with_the_algorithm(algorithm: str, expected: str) -> None:
    assert resolve("auto", algorithm) == expected
    assert all(resolve(kind, algorithm) == kind for kind in EXCHANGES[algorithm])
