from __future__ import annotations

import pytest

from common.settings.sections import Staleness
from learner.exchange.staleness import coalesce, limit, quorum, scale, weight


def test_scale_is_the_inverse_root_of_one_plus_the_lag() -> None:
    assert [scale("inverse-sqrt", lag) for lag in (0, 3, 8, 99)] == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 10])


def test_scale_is_the_inverse_of_one_plus_the_lag() -> None:
    assert [scale("inverse", lag) for lag in (0, 1, 3, 99)] == pytest.approx([1.0, 1 / 2, 1 / 4, 1 / 100])


def test_scale_none_leaves_the_step_alone() -> None:
    assert scale("none", 10_000) == 1.0


def test_only_the_policy_that_scales_scales() -> None:
    assert weight(Staleness(), 3) == 0.5
    assert weight(Staleness(policy="compensate"), 3) == weight(Staleness(policy="synchronous"), 3) == 1.0


def test_limit_grows_with_the_actors() -> None:
    assert limit(Staleness(refuse_factor=4.0), 10) == 40
    assert limit(Staleness(refuse_factor=0.5), 30) == 15


def test_limit_has_a_floor_for_few_actors() -> None:
    assert limit(Staleness(refuse_factor=4.0), 0) == 4
    assert limit(Staleness(refuse_factor=1.5), 1) == 4
    assert limit(Staleness(refuse_factor=1.5), 4) == 6


def test_limit_with_factor_zero_refuses_nothing() -> None:
    assert limit(Staleness(refuse_factor=0.0), 40) is None


@pytest.mark.parametrize(
    ("refuse_factor", "drop_above", "reach", "expected"),
    [(4.0, 7, None, 7), (4.0, 0, None, 0), (0.0, 7, None, 7), (4.0, 70, None, 40), (4.0, None, 3, 3), (0.0, 7, 0, 0)],
)
def test_of_several_limits_the_smallest_holds(
    refuse_factor: float, drop_above: int | None, reach: int | None, expected: int
) -> None:
    assert limit(Staleness(refuse_factor=refuse_factor, drop_above=drop_above), 10, reach) == expected


def test_synchronously_only_the_newest_version_is_taken() -> None:
    assert limit(Staleness(policy="synchronous", refuse_factor=0.0), 40) == 0


@pytest.mark.parametrize(
    ("share", "actors", "expected"),
    [(1.0, 40, 40), (0.9, 10, 9), (0.91, 10, 10), (0.07, 100, 7), (0.01, 3, 1), (1.0, 0, 0)],
)
def test_the_share_of_the_actors_is_rounded_up(share: float, actors: int, expected: int) -> None:
    assert quorum(share, actors) == expected


@pytest.mark.parametrize(
    ("actors", "expected"), [(0, 1), (4, 1), (5, 1), (9, 1), (10, 2), (40, 8), (80, 16), (500, 16)]
)
def test_coalesce_is_a_fifth_of_the_actors_between_one_and_the_cap(actors: int, expected: int) -> None:
    assert coalesce(actors, 16) == expected
