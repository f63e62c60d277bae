from __future__ import annotations

import pytest

from learner.exchange.step_rule import (
    GATHER_ACTORS,
    AllThatWaits,
    AtOnce,
    StepRule,
    Synchronous,
    coalesce,
    gather_seconds,
    quorum,
    step_rule,
)
from tests.helpers.run import settings_of


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


A, B, C = (("x", name) for name in "abc")


def test_at_once_counts_contributions_and_synchronously_actors() -> None:
    actors = [(str(number), "1") for number in range(10)]
    assert [AtOnce(16).is_full([actors[0]] * count, actors) for count in (0, 1, 2)] == [False, False, True]
    rule = Synchronous(share=1.0, wait_seconds=5.0)
    assert not rule.is_full([A, A], [A, B])
    assert rule.is_full([A, B], [A, B, B]), "one that came back by another connection is one actor"
    assert not rule.is_full([A, C], [A, B]), "one that left stands for nobody"
    assert not rule.is_full([], [])
    assert rule.is_full([C], []), "nobody is left to wait for"


@pytest.mark.parametrize("rule", [AtOnce(16), AllThatWaits(), Synchronous(0.3, 5.0), Synchronous(1.0, 5.0)])
def test_fewer_than_least_are_never_full(rule: StepRule) -> None:
    for actors in range(0, 100, 7):
        present = [("x", str(number)) for number in range(actors)]
        least = rule.least(actors)
        assert not rule.is_full(present[: least - 1], present)
        assert rule.is_full(present[:least], present) or actors < least
        assert rule.asks_who or rule.is_full([A] * least, present), "enough, whoever sent them"


def test_the_rule_follows_the_staleness_policy() -> None:
    assert step_rule(settings_of("exchange.coalesce=3"), "cpu") == AtOnce(3)
    synchronous = settings_of("staleness.policy=synchronous", "staleness.wait_seconds=7", "staleness.share=0.5")
    assert step_rule(synchronous, "cuda:0") == Synchronous(0.5, 7.0)


def test_a_gpu_learns_from_all_rollouts_that_wait() -> None:
    for kind, rule in (("trajectories", AllThatWaits()), ("actions", AllThatWaits()), ("gradients", AtOnce(16))):
        assert step_rule(settings_of(f"exchange.kind={kind}"), "cuda") == rule
        assert step_rule(settings_of(f"exchange.kind={kind}"), "cpu") == AtOnce(16)
    actors = [(str(number), "1") for number in range(40)]
    assert [AllThatWaits().is_full(actors[:count], actors) for count in (1, 8, 39, 40)] == [False, False, False, True]
    assert AllThatWaits().is_full(actors[:1], [])


def test_messages_of_many_gather_unless_the_actors_wait_for_the_step() -> None:
    assert gather_seconds(AtOnce(16), GATHER_ACTORS - 1) == 0.0
    assert gather_seconds(AtOnce(16), GATHER_ACTORS) == gather_seconds(AllThatWaits(), 1000) > 0.0
    assert gather_seconds(Synchronous(share=1.0, wait_seconds=5.0), 1000) == 0.0
