from __future__ import annotations

import pytest

from learner.staleness import StalenessRule, staleness_rule
from tests.helpers.run import settings_of


def test_weights_fall_with_the_lag_as_the_rule_says() -> None:
    assert [StalenessRule("inverse-sqrt").weight(lag) for lag in (0, 3, 8, 99)] == pytest.approx(
        [1.0, 1 / 2, 1 / 3, 1 / 10]
    )
    assert [StalenessRule("inverse").weight(lag) for lag in (0, 1, 3, 99)] == pytest.approx([1.0, 1 / 2, 1 / 4, 0.01])
    assert StalenessRule("none").weight(10_000) == 1.0


def test_the_limit_grows_with_the_actors_and_has_a_floor() -> None:
    assert StalenessRule(refuse_factor=4.0).limit(10) == 40
    assert StalenessRule(refuse_factor=0.5).limit(30) == 15
    assert StalenessRule(refuse_factor=4.0).limit(0) == 4
    assert [StalenessRule(refuse_factor=1.5).limit(actors) for actors in (1, 4)] == [4, 6]


def test_without_a_factor_nothing_is_too_old() -> None:
    assert StalenessRule().limit(40) is None


@pytest.mark.parametrize(
    ("refuse_factor", "drop_above", "reach", "expected"),
    [(4.0, 7, None, 7), (4.0, 0, None, 0), (0.0, 7, None, 7), (4.0, 70, None, 40), (4.0, None, 3, 3), (0.0, 7, 0, 0)],
)
def test_of_several_limits_the_smallest_holds(
    refuse_factor: float, drop_above: int | None, reach: int | None, expected: int
) -> None:
    assert StalenessRule(refuse_factor=refuse_factor, drop_above=drop_above).limit(10, reach) == expected


def test_the_rule_follows_the_policy() -> None:
    assert staleness_rule(settings_of()) == StalenessRule("inverse-sqrt", 4.0, None)
    compensated = settings_of("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1")
    assert staleness_rule(compensated).scale == "none"
    assert staleness_rule(settings_of("staleness.policy=synchronous")).limit(40) == 0
