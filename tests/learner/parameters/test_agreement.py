from __future__ import annotations

import pytest
import torch

from common.errors import AgainstOthersError
from learner.parameters.agreement import LEAST, LONG, SOURCES, Agreement

SIZE = 2000


class Crew:
    """Actors whose gradients are one direction, weak against their noise."""

    def __init__(self, actors: int, seed: int = 0, signal: float = 0.3, size: int = SIZE) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.direction = torch.randn(size, generator=self.generator)
        self.direction /= self.direction.norm()
        self.signal = signal
        self.agreement = Agreement(size)
        self.names = [str(number) for number in range(actors)]

    def gradient(self) -> torch.Tensor:
        noise = torch.randn(len(self.direction), generator=self.generator)
        return self.signal * self.direction + noise / noise.norm()

    def judge(self, name: str, gradient: torch.Tensor) -> float | None:
        """The factor; None: left out."""
        try:
            return self.agreement.judge(name, gradient, float(gradient.norm()), 1)
        except AgainstOthersError as error:
            assert str(error).startswith(name)
            return None

    def play(self, rounds: int, **factors: float) -> dict[str, list[float | None]]:
        """Each actor's factors; its gradients are multiplied by `factors`, given as `_NAME`."""
        judged: dict[str, list[float | None]] = {name: [] for name in self.names}
        for _ in range(rounds):
            for name in self.names:
                judged[name].append(self.judge(name, factors.get(f"_{name}", 1.0) * self.gradient()))
        return judged


@pytest.mark.parametrize("actors", [4, 10])
@pytest.mark.parametrize("seed", range(3))
def test_who_flips_the_sign_is_left_out_and_named_and_nobody_else(actors: int, seed: int) -> None:
    crew = Crew(actors, seed)
    judged = crew.play(300, _0=-1.0)
    assert judged["0"][-1] is None
    assert all(None not in judged[name] for name in crew.names[1:])
    (named,) = crew.agreement.named()
    assert named.startswith("0: its gradients point against the others'")


@pytest.mark.parametrize("signal", [0.0, 0.05, 0.3, 3.0])
def test_honest_actors_are_never_left_out_however_weak_their_signal(signal: float) -> None:
    crew = Crew(10, seed=1, signal=signal)
    assert all(factor is not None for factors in crew.play(400).values() for factor in factors)
    assert crew.agreement.named() == []


def test_one_that_is_repaired_comes_back() -> None:
    crew = Crew(10, seed=2)
    crew.play(200, _0=-1.0)
    assert crew.play(1200)["0"][-1] == 1.0
    assert crew.agreement.named() == []


def test_whoever_sends_long_gradients_is_clipped_to_twice_the_usual_length_and_named() -> None:
    crew = Crew(10, seed=3)
    judged = crew.play(2 * LEAST, _0=1000.0)
    last = judged["0"][-1]
    assert last is not None and last * 1000 == pytest.approx(LONG, rel=0.1)
    assert judged["1"][-1] == 1.0
    (named,) = crew.agreement.named()
    assert named.startswith("0: its gradients are ") and named.endswith(" times as long as is usual; clipped")


def test_of_two_nobody_can_tell_which_is_right() -> None:
    crew = Crew(2, seed=4)
    assert all(factor == 1.0 for factors in crew.play(300, _0=-50.0).values() for factor in factors)


def test_a_sum_over_several_rollouts_may_be_longer_and_zero_tells_nothing() -> None:
    crew = Crew(5, seed=5)
    crew.play(50)
    four = 2 * LONG * crew.gradient()
    assert crew.agreement.judge("0", four, float(four.norm()), 4) == pytest.approx(1.0, rel=0.2)
    assert crew.judge("0", torch.zeros(SIZE)) == 1.0


def test_of_large_gradients_a_part_is_compared_and_of_many_actors_the_last_are_remembered() -> None:
    crew = Crew(4, seed=6, size=50_000)
    assert crew.play(200, _0=-1.0)["0"][-1] is None
    many = Crew(SOURCES + 50, size=10)
    many.play(2)
    assert len(many.agreement.sources) == SOURCES
