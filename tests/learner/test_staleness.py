import pytest

from learner.staleness import coalesce, limit, scale


def test_scale_is_the_inverse_root_of_one_plus_the_lag() -> None:
    assert [scale("inverse-sqrt", lag) for lag in (0, 3, 8, 99)] == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 10])


def test_scale_none_leaves_the_step_alone() -> None:
    assert scale("none", 10_000) == 1.0


def test_limit_grows_with_the_actors() -> None:
    assert limit(4.0, 10) == 40
    assert limit(0.5, 30) == 15


def test_limit_has_a_floor_for_few_actors() -> None:
    assert limit(4.0, 0) == 4
    assert limit(1.5, 1) == 4
    assert limit(1.5, 4) == 6


def test_limit_with_factor_zero_refuses_nothing() -> None:
    assert limit(0.0, 40) is None


@pytest.mark.parametrize(
    ("actors", "expected"), [(0, 1), (4, 1), (5, 1), (9, 1), (10, 2), (40, 8), (80, 16), (500, 16)]
)
def test_coalesce_is_a_fifth_of_the_actors_between_one_and_the_cap(actors: int, expected: int) -> None:
    assert coalesce(actors, 16) == expected
