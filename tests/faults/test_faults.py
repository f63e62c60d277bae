"""Two hundred simulations of random faults, and bugs planted on purpose, each of which must be found by some seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

import learner.fleet
from actor.core import ActorCore
from actor.outbox import Outbox
from common.wire.codecs.feedback import ErrorFeedback
from learner.exchange.base import ContributionExchange
from learner.parameters.optimizers import FlatOptimizer
from learner.peers import Peers
from tests.faults.run import failure
from tests.faults.scenario import Scenario

pytestmark = pytest.mark.slow

SEEDS = 200
PARTS = 8
MOST_SEEDS = 60
"""Number of seeds within which a planted bug must be found."""
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_fault_breaks_an_invariant(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        why = failure(seed)
        assert not why, f"python -m tests.faults.run --seeds 1 --first {seed}: {why}"


def test_a_seed_is_the_same_simulation_each_time() -> None:
    def course(seed: int) -> tuple[Any, ...]:
        scenario = Scenario(seed)
        scenario.run()
        return scenario.invariants.applied, scenario.cluster.queue.happened, scenario.cluster.network.broadcasts_dropped

    assert course(7) == course(7) != course(8)


def actors_without_credit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActorCore, "_has_credit", property(lambda _: True))


def a_learner_that_loses_credit(patch: pytest.MonkeyPatch) -> None:
    answered = ContributionExchange._answered
    calls = iter(range(10**9))

    def forgets(self: ContributionExchange, one: Any) -> None:
        if next(calls) % 7:
            answered(self, one)

    patch.setattr(ContributionExchange, "_answered", forgets)


def a_window_that_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peers, "is_duplicate", lambda *_: False)


def a_learner_that_takes_any_epoch(patch: pytest.MonkeyPatch) -> None:
    handle = ContributionExchange.handle

    def blind(self: Any, now: float, routing_id: bytes, peer: Any, message: Any, body: Any) -> Any:
        message = msgspec.structs.replace(message, epoch=self._run.spec.epoch)
        return handle(self, now, routing_id, peer, message, body)

    patch.setattr(ContributionExchange, "handle", blind)


def actors_that_send_once(patch: pytest.MonkeyPatch) -> None:
    def only_new(self: Outbox, now: float, *, all_of_them: bool = False) -> Any:
        sends = []
        for one in self._kept.values():
            if one.due == float("-inf"):
                sends.append(one.send)
                one.due = float("inf")
        return sends

    patch.setattr(Outbox, "due", only_new)


def actors_that_owe_what_was_discarded(patch: pytest.MonkeyPatch) -> None:
    answered = ErrorFeedback.answered
    patch.setattr(ErrorFeedback, "answered", lambda self, number, *, dropped: answered(self, number, dropped=False))


def a_checkpoint_without_the_optimizer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlatOptimizer, "load", lambda *_: None)


def a_share_that_does_not_add_up(patch: pytest.MonkeyPatch) -> None:
    def first_gets_all(wanted: int, slots: Sequence[int]) -> list[int]:
        return [min(wanted, slots[0]), *[0] * (len(slots) - 1)] if slots else []

    patch.setattr(learner.fleet, "share", first_gets_all)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (actors_without_credit, "unanswered"),
        (a_learner_that_loses_credit, "counts"),
        (a_window_that_forgets, "is in a step of epoch"),
        (a_learner_that_takes_any_epoch, "are in a step of epoch"),
        (actors_that_send_once, "waits for ever"),
        (a_share_that_does_not_add_up, "actors ordered"),
        (actors_that_owe_what_was_discarded, "owes"),
        (a_checkpoint_without_the_optimizer, "the weights of version"),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        if why := failure(seed):
            assert found in why, f"seed {seed}: {why}"
            return
    pytest.fail(f"{plant.__name__} is not found in {MOST_SEEDS} seeds")
