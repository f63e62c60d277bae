import random

import pytest

from learner.scaling.gain import FLOOR, UNKNOWN, Throughput, has_grown, throughput


def of(actors: int, mean: float, noise: float = 0.0, seed: int = 0, samples: int = 10) -> Throughput:
    draw = random.Random(seed)
    found = throughput(actors, [mean * (1 + draw.gauss(0.0, noise)) for _ in range(samples)])
    assert found is not None
    return found


def test_throughput_is_never_taken_for_exact() -> None:
    assert throughput(3, []) is None and throughput(0, [1.0]) is None
    assert throughput(3, [100.0] * 9) == Throughput(3, 100.0, FLOOR * 100.0)
    assert throughput(3, [100.0]) == Throughput(3, 100.0, UNKNOWN * 100.0)
    assert of(3, 100.0, noise=0.5).error > 2 * FLOOR * 100.0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (10, 15), (20, 30)])
def test_actors_with_room_bring_frames_and_actors_on_a_full_host_do_not(before: int, after: int, seed: int) -> None:
    first = of(before, 1000.0 * before, 0.1, seed)
    assert has_grown(first, of(after, 1000.0 * after, 0.1, seed + 99)) is True
    assert has_grown(first, of(after, 1000.0 * before, 0.1, seed + 99)) is not True
    assert has_grown(first, of(after, 950.0 * before, 0.05, seed + 99)) is False


def test_one_among_many_is_too_little_to_tell_and_some_more_are_not() -> None:
    assert has_grown(of(20, 1000.0), of(21, 1000.0)) is None
    assert has_grown(of(20, 1000.0), of(21, 1050.0)) is None
    assert has_grown(of(20, 1000.0), of(30, 1000.0)) is False
    assert has_grown(of(20, 1000.0), of(30, 1450.0)) is True


def test_nothing_before_tells_nothing() -> None:
    assert has_grown(Throughput(2, 0.0, 0.0), Throughput(3, 100.0, 1.0)) is None
