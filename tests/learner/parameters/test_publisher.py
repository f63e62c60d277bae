from __future__ import annotations

import math
from itertools import pairwise

import pytest

from common.wire.bodies.broadcast import KEYFRAME, Broadcast, run_mark
from common.wire.messages import Acknowledgement, Pull, Weights
from learner.effects import Effect, Log, Publish, Send
from learner.parameters.publisher import HOLD_SECONDS, KEYFRAME_SECONDS, Outlet
from learner.run_stats import Counters, Ledger
from learner.scaling import Decision
from tests.helpers.run import NotedStore, plan_of, settings_of


class Weighted(NotedStore):
    """Weights of a given size."""

    size = 100

    def body(self, form: str) -> bytes:
        return b"w" * self.size


def outlet_of(*assignments: str, size: int = 100, version: int = 0) -> tuple[Outlet, Ledger]:
    ledger = Ledger(Counters(version=version), 10, Decision(1, ""), 0.0)
    store = Weighted(version)
    store.size = size
    return Outlet(plan_of(settings_of(*assignments), epoch=3), store, ledger, 0.0), ledger


def test_nothing_is_published_before_the_weights_change_also_after_a_restart() -> None:
    outlet, ledger = outlet_of(version=70)
    assert outlet.publish(5.0, 4) == []
    assert outlet.deadline == math.inf
    ledger.stepped(5.0)
    assert outlet.deadline <= 5.0
    (published,) = outlet.publish(5.0, 4)
    assert isinstance(published, Publish)
    news = Broadcast.unpack(published.frame)
    assert (news.run, news.epoch, news.version, news.format) == (run_mark("a-run"), 3, 71, "fp32")
    assert news.body == b"w" * 100
    assert outlet.publish(6.0, 4) == []


def test_actors_that_only_hold_environments_get_no_weights() -> None:
    outlet, ledger = outlet_of("exchange.kind='actions'")
    ledger.stepped(5.0)
    assert outlet.deadline == math.inf
    assert outlet.publish(6.0, 4) == []


@pytest.mark.parametrize(
    ("size", "subscribers", "interval"),
    [(100, 4, 0.02), (1_000_000, 4, 4 * 8e6 / 800e6), (1_000_000, 0, 0.02), (1_000_000, 100, 1.0)],
)
def test_the_rate_is_bounded_by_the_interval_and_the_egress_budget(
    size: int, subscribers: int, interval: float
) -> None:
    outlet, ledger = outlet_of("exchange.broadcast_ms=20", "exchange.egress_mbit=800", size=size)
    published = []
    for step in range(2000):
        now = 0.001 * step
        ledger.stepped(now)
        published += [now] * len(outlet.publish(now, subscribers))
    gaps = [after - before for before, after in pairwise(published)]
    assert min(gaps) >= interval - 1e-9
    assert max(gaps) <= interval + 0.0011
    assert ledger.counters.weight_bytes == len(published) * max(1, subscribers) * size


def test_what_was_held_back_is_published_when_due_without_another_step() -> None:
    outlet, ledger = outlet_of("exchange.broadcast_ms=100")
    ledger.stepped(0.0)
    assert outlet.publish(0.0, 1)
    ledger.stepped(0.01)
    assert outlet.publish(0.05, 1) == []
    assert outlet.deadline == pytest.approx(0.1)
    assert outlet.publish(outlet.deadline, 1)


def test_a_pull_brings_the_newest_or_says_that_there_is_nothing_newer() -> None:
    outlet, ledger = outlet_of(version=9)
    assert outlet.pulled(1.0, b"x", Pull(version=8)) == [Send(b"x", Weights(version=9, epoch=3), b"w" * 100)]
    assert ledger.counters.weight_bytes == 100
    for version in (9, 10, 2**63 - 1):
        assert outlet.pulled(1.0, b"x", Pull(version=version)) == [Send(b"x", Weights(version=9, epoch=3), None)]
    assert ledger.counters.weight_bytes == 100


def test_synchronously_weights_go_ahead_of_each_answer_and_nothing_is_broadcast() -> None:
    outlet, ledger = outlet_of("staleness.policy=synchronous", version=9)
    ledger.stepped(1.0)
    assert outlet.publish(2.0, 4) == []
    assert outlet.deadline == math.inf
    answer = Acknowledgement(sequence=1, verdict="applied", version=10, credit=1, actors=2)
    told = Log("info", "x")
    effects: list[Effect] = [told, Send(b"x", answer), Send(b"y", answer)]
    weights = Weights(version=10, epoch=3)
    assert outlet.ahead_of_answers(2.0, effects) == [
        told,
        *(Send(b"x", weights, b"w" * 100), Send(b"x", answer)),
        *(Send(b"y", weights, b"w" * 100), Send(b"y", answer)),
    ]
    assert ledger.counters.weight_bytes == 200
    ordinary, _ = outlet_of()
    assert ordinary.ahead_of_answers(2.0, effects) == effects


class Stepping:
    """An outlet with deltas, its store and its ledger one step at a time."""

    def __init__(self) -> None:
        self.ledger = Ledger(Counters(version=9), 10, Decision(1, ""), 0.0)
        self.store = NotedStore(9)
        plan = plan_of(settings_of("exchange.weights=delta", "exchange.broadcast_ms=20"), epoch=3)
        self.outlet = Outlet(plan, self.store, self.ledger, 0.0)

    def published(self, now: float) -> tuple[int, str, bytes] | None:
        self.store.step(scale=1.0, frames=0)
        self.ledger.stepped(now)
        effects = self.outlet.publish(now, 2)
        if not effects:
            return None
        (published,) = effects
        assert isinstance(published, Publish)
        news = Broadcast.unpack(published.frame)
        return news.version, news.format, bytes(news.body)


def test_deltas_follow_a_keyframe_until_another_is_due_and_not_too_soon() -> None:
    run = Stepping()
    assert run.published(10.0) == (10, "fp32", b"fp32:10")
    assert run.published(10.0 + HOLD_SECONDS / 2) is None, "actors are to see the keyframe"
    for step in range(2, 7):
        now, version = 10.0 + step * HOLD_SECONDS, 10 + step
        assert run.published(now) == (version, "delta", KEYFRAME.pack(10) + f"delta:{version}".encode())
    assert run.published(10.0 + KEYFRAME_SECONDS) == (17, "fp32", b"fp32:17")
    assert run.store.keyframes == [10, 17]
    assert run.published(12.0) == (18, "delta", KEYFRAME.pack(17) + b"delta:18")


def test_who_joins_or_pulls_gets_the_keyframe_and_what_has_changed_since() -> None:
    run = Stepping()
    assert run.outlet.snapshot(1.0) == (9, b"fp32:9")
    run.published(2.0)
    assert run.outlet.snapshot(2.0) == (9, b"fp32:9"), "the newest come behind it"
    keyframe = Send(b"x", Weights(version=9, epoch=3), b"fp32:9")
    delta = Send(b"x", Weights(version=10, epoch=3, delta=True), KEYFRAME.pack(9) + b"delta:10")
    before = run.ledger.counters.weight_bytes
    assert run.outlet.pulled(2.0, b"x", Pull(version=3)) == [keyframe, delta]
    assert run.ledger.counters.weight_bytes - before == len(b"fp32:9") + 8 + len(b"delta:10")
    assert run.outlet.pulled(2.0, b"x", Pull(version=9)) == [delta]
    assert run.outlet.pulled(2.0, b"x", Pull(version=10)) == [Send(b"x", Weights(version=10, epoch=3))]
