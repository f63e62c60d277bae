from __future__ import annotations

import numpy as np
import pytest

from common.rl.moments import MAX_MEAN, Moments
from learner.parameters.moments_guard import SOURCES, MomentsGuard

SIZE = 4
RNG = np.random.default_rng


class Total:
    def __init__(self) -> None:
        self.guard = MomentsGuard()
        self.believed = Moments.empty(SIZE)
        self.plain = Moments.empty(SIZE)
        """Of all, without the guard."""

    def add(self, source: str, seen: Moments) -> None:
        self.believed = self.believed.merged(self.guard.believed(source, seen))
        self.plain = self.plain.merged(seen)


def rollout(rng: np.random.Generator, centre: float, spread: float = 1.0) -> Moments:
    """Of 20 steps that stay near each other, as those of one episode do."""
    place = centre + spread * rng.standard_normal(SIZE)
    return Moments.from_rows(place + 0.5 * spread * rng.standard_normal((20, SIZE)))


def assert_alike(one: Moments, other: Moments, share: float) -> None:
    spread = np.sqrt(other.variances)
    assert (np.abs(one.means - other.means) < share * spread).all()
    assert (np.abs(np.sqrt(one.variances) / spread - 1) < share).all()


@pytest.mark.parametrize("lie", [MAX_MEAN, -1e30, 1e6])
@pytest.mark.parametrize("share_of_time", [1, 5])
def test_one_that_counts_what_is_not_true_moves_the_statistics_by_deviations_only(
    lie: float, share_of_time: int
) -> None:
    rng, total, honest = RNG(0), Total(), Moments.empty(SIZE)
    for number in range(3000):
        for name in ("a", "b", "c"):
            seen = rollout(rng, 5.0)
            honest = honest.merged(seen)
            total.add(name, seen)
        if number % share_of_time == 0:
            total.add("liar", Moments(20, np.full(SIZE, lie), np.full(SIZE, lie**2)))
    apart = np.abs(total.believed.means - honest.means) / np.sqrt(honest.variances)
    assert (apart < 4).all()
    assert (total.believed.variances < 20 * honest.variances).all()
    assert (np.abs(total.plain.means) > 1e4).all(), "without, one message is enough"


@pytest.mark.parametrize("liars", [2, 3])
def test_what_a_few_of_many_say_alike_is_not_confirmed_by_that(liars: int) -> None:
    """All the actors of a broken host count in other units, and a key's holder may have any number of names."""
    rng, total, honest = RNG(0), Total(), Moments.empty(SIZE)
    for _ in range(100):
        for name in range(10):
            seen = rollout(rng, 5.0)
            honest = honest.merged(seen)
            total.add(str(name), seen)
        for name in range(liars):
            total.add(f"liar {name}", Moments(20, np.full(SIZE, 1e30), np.full(SIZE, 1e60)))
    apart = np.abs(total.believed.means - honest.means) / np.sqrt(honest.variances)
    assert (apart < 4).all()
    assert (total.believed.variances < 20 * honest.variances).all()


def test_a_lie_that_stays_within_what_is_believed_does_not_widen_it_without_end() -> None:
    rng, total, honest = RNG(1), Total(), Moments.empty(SIZE)
    for _ in range(5000):
        for name in ("a", "b", "c"):
            seen = rollout(rng, 5.0)
            honest = honest.merged(seen)
            total.add(name, seen)
        spread = np.sqrt(total.believed.variances)
        total.add("liar", Moments(20, total.believed.means + 100 * spread, 20 * 100 * total.believed.variances))
    assert (np.sqrt(total.believed.variances) < 5 * np.sqrt(honest.variances)).all()


def test_honest_drift_into_a_new_region_passes_as_it_comes() -> None:
    rng, total = RNG(2), Total()
    for number in range(6000):
        centre = 0.0 if number < 2000 else (number - 2000) / 50  # eighty deviations away in the end
        for name in ("a", "b", "c"):
            total.add(name, rollout(rng, centre))
    assert_alike(total.believed, total.plain, 0.05)


def test_a_sudden_change_for_all_passes_after_the_first_messages() -> None:
    rng, total = RNG(3), Total()
    for number in range(4000):
        for name in ("a", "b", "c"):
            seen = rollout(rng, 0.0) if number < 1000 else rollout(rng, 1000.0)
            constant = Moments.from_rows(np.full((20, SIZE), float(number >= 1000)))
            total.add(name, constant if number % 2 else seen)
    assert_alike(total.believed, total.plain, 0.05)


def test_a_region_that_a_third_of_many_has_reached_counts_in_full() -> None:
    rng, total = RNG(5), Total()
    for number in range(300):
        for name in range(12):
            total.add(str(name), rollout(rng, 30.0 if number >= 100 and name < 4 else 0.0))
    assert_alike(total.believed, total.plain, 0.05)


def test_who_is_alone_is_believed_and_so_are_few_honest_ones() -> None:
    for names in (("a",), ("a", "b")):
        rng, total = RNG(4), Total()
        for number in range(500):
            for name in names:
                total.add(name, rollout(rng, number / 10.0, spread=1 + number / 100))
        assert_alike(total.believed, total.plain, 0.05)


def test_moments_of_no_steps_change_nothing_and_sources_are_bounded() -> None:
    guard = MomentsGuard()
    nothing = Moments.empty(SIZE)
    assert guard.believed("a", nothing) is nothing
    for number in range(3 * SOURCES):
        guard.believed(str(number), rollout(RNG(number), 0.0))
    assert len(guard._known) == SOURCES
