from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from common.settings.sections import Optimizer
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.messages import Acknowledgement, Pull
from common.wire.messages import Weights as Message
from learner.effects import Effect, Log, Publish, Send
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.publisher import HOLD_SECONDS, KEYFRAME_SECONDS, Occasion, WeightPublisher
from learner.parameters.weights import Weights
from learner.peers import Peers
from learner.run_stats import Counters, RunStats
from tests.helpers.run import NotedSum, body_of, hello_of, run_of, settings_of, version_of, version_of_delta

BODY = b"\0" * 100


def weights_of(size: int) -> Weights:
    """Weights of 0 with a body of so many bytes."""
    optimizer = make_optimizer(Optimizer(kind="sgd"), torch.zeros(size // 4), 0)
    return Weights(optimizer, np.zeros(0, np.float32))


def publisher_of(
    *assignments: str, size: int = 100, version: int = 0, occasion: Occasion = "broadcast"
) -> tuple[WeightPublisher, RunStats]:
    settings = settings_of(*assignments)
    run = run_of(settings, epoch=3, counters=Counters(version=version))
    return WeightPublisher(run, weights_of(size), occasion, 0.0), run.stats


def test_nothing_is_published_before_the_weights_change_also_after_a_restart() -> None:
    publisher, stats = publisher_of(version=70)
    assert publisher.publish(5.0, 4) == []
    assert publisher.deadline == math.inf
    stats.stepped({}, 0)
    assert publisher.deadline <= 5.0
    (published,) = publisher.publish(5.0, 4)
    assert isinstance(published, Publish)
    news = Broadcast.unpack(published.frame)
    assert (news.run, news.epoch, news.version, news.format) == (run_mark("a-run"), 3, 71, "fp32")
    assert news.body == BODY
    assert publisher.publish(6.0, 4) == []


def test_actors_that_only_hold_environments_get_no_weights() -> None:
    publisher, stats = publisher_of(occasion="never")
    stats.stepped({}, 0)
    assert publisher.deadline == math.inf
    assert publisher.publish(6.0, 4) == []


@pytest.mark.parametrize(
    ("size", "subscribers", "interval"),
    [(100, 4, 0.02), (1_000_000, 4, 4 * 8e6 / 800e6), (1_000_000, 0, 0.02), (1_000_000, 100, 1.0)],
)
def test_the_rate_is_bounded_by_the_interval_and_the_egress_budget(
    size: int, subscribers: int, interval: float
) -> None:
    publisher, stats = publisher_of("exchange.broadcast_ms=20", "exchange.egress_mbit=800", size=size)
    published = []
    for step in range(2000):
        now = 0.001 * step
        stats.stepped({}, 0)
        published += [now] * len(publisher.publish(now, subscribers))
    gaps = [after - before for before, after in pairwise(published)]
    assert min(gaps) >= interval - 1e-9
    assert max(gaps) <= interval + 0.0011
    assert stats.counters.weight_bytes == len(published) * max(1, subscribers) * size


@pytest.mark.parametrize(
    ("near", "every", "interval"),
    [(30, 0.001, 0.1), (15, 0.001, 0.2), (30, 0.005, 0.15), (30, 0.02, 0.3), (0, 0.001, 0.3)],
)
def test_actors_on_this_host_count_a_third_but_get_weights_no_more_often_than_they_send(
    near: int, every: float, interval: float
) -> None:
    publisher, stats = publisher_of(size=1_000_000)
    peer, _ = Peers().join(b"x", hello_of("x"), 0.0)
    published = []
    for step in range(1, 1200):
        now = step * every
        stats.lagged(now, peer, 0)
        stats.stepped({}, 0)
        published += [now] * len(publisher.publish(now, 30, near))
    gaps = [after - before for before, after in pairwise(published[len(published) // 2 :])]
    assert np.mean(gaps) == pytest.approx(interval, rel=0.1)


def test_what_was_held_back_is_published_when_due_without_another_step() -> None:
    publisher, stats = publisher_of("exchange.broadcast_ms=100")
    stats.stepped({}, 0)
    assert publisher.publish(0.0, 1)
    stats.stepped({}, 0)
    assert publisher.publish(0.05, 1) == []
    assert publisher.deadline == pytest.approx(0.1)
    assert publisher.publish(publisher.deadline, 1)


def test_a_pull_brings_the_newest_or_says_that_there_is_nothing_newer() -> None:
    publisher, stats = publisher_of(version=9)
    assert publisher.pulled(1.0, b"x", Pull(version=8)) == [Send(b"x", Message(version=9, epoch=3), BODY)]
    assert stats.counters.weight_bytes == 100
    for version in (9, 10, 2**63 - 1):
        assert publisher.pulled(1.0, b"x", Pull(version=version)) == [Send(b"x", Message(version=9, epoch=3), None)]
    assert stats.counters.weight_bytes == 100


def test_synchronously_weights_go_ahead_of_each_answer_and_nothing_is_broadcast() -> None:
    publisher, stats = publisher_of(version=9, occasion="answer")
    stats.stepped({}, 0)
    assert publisher.publish(2.0, 4) == []
    assert publisher.deadline == math.inf
    answer = Acknowledgement(sequence=1, verdict="applied", version=10, credit=1, actors=2)
    told = Log("info", "x")
    effects: list[Effect] = [told, Send(b"x", answer), Send(b"y", answer)]
    weights = Message(version=10, epoch=3)
    assert publisher.ahead_of_answers(2.0, effects) == [
        told,
        *(Send(b"x", weights, BODY), Send(b"x", answer)),
        *(Send(b"y", weights, BODY), Send(b"y", answer)),
    ]
    assert stats.counters.weight_bytes == 200
    assert publisher.ahead_of_answers(3.0, effects) == effects, "each has them"
    stats.stepped({}, 0)
    assert publisher.ahead_of_answers(4.0, effects)[1] == Send(b"x", Message(version=11, epoch=3), BODY)
    ordinary, _ = publisher_of()
    assert ordinary.ahead_of_answers(2.0, effects) == effects


class Stepping:
    """A publisher with deltas, one step at a time."""

    def __init__(self) -> None:
        settings = settings_of("exchange.weights=delta", "exchange.broadcast_ms=20")
        run = run_of(settings, epoch=3, counters=Counters(version=9))
        self.stats, self.sum = run.stats, NotedSum(9)
        self.publisher = WeightPublisher(run, self.sum.weights, "broadcast", 0.0)
        self.keyframe = 9

    def published(self, now: float) -> tuple[int, str] | None:
        """Version and format of the broadcast, if there is one; its body is of that version."""
        self.sum.step(scale=1.0, frames=0)
        self.stats.stepped({}, 0)
        effects = self.publisher.publish(now, 2)
        if not effects:
            return None
        (published,) = effects
        assert isinstance(published, Publish)
        news = Broadcast.unpack(published.frame)
        if news.format == "delta":
            assert version_of_delta(news.body, self.keyframe) == news.version
        else:
            assert version_of(news.body) == news.version
            self.keyframe = news.version
        return news.version, news.format


def test_deltas_follow_a_keyframe_until_another_is_due_and_not_too_soon() -> None:
    run = Stepping()
    assert run.published(10.0) == (10, "fp32")
    assert run.published(10.0 + HOLD_SECONDS / 2) is None, "actors are to see the keyframe"
    for step in range(2, 7):
        assert run.published(10.0 + step * HOLD_SECONDS) == (10 + step, "delta")
    assert run.published(10.0 + KEYFRAME_SECONDS) == (17, "fp32")
    behind = run.publisher.pulled(10.0 + KEYFRAME_SECONDS, b"x", Pull(version=10))
    assert behind == [Send(b"x", Message(version=17, epoch=3), body_of(17))], "its last whole weights were those of 10"
    assert run.published(12.0) == (18, "delta")


def test_who_joins_or_pulls_gets_the_keyframe_and_what_has_changed_since() -> None:
    run = Stepping()
    assert run.publisher.first(1.0, b"j") == (9, body_of(9))
    run.published(2.0)
    assert run.publisher.first(2.0, b"k") == (9, body_of(9)), "the newest come behind it"
    before = run.stats.counters.weight_bytes
    keyframe, delta = run.publisher.pulled(2.1, b"x", Pull(version=3))
    assert keyframe == Send(b"x", Message(version=9, epoch=3), body_of(9))
    assert isinstance(delta, Send) and delta.body is not None
    assert delta.message == Message(version=10, epoch=3, delta=True)
    assert version_of_delta(delta.body, 9) == 10
    assert run.stats.counters.weight_bytes - before == len(body_of(9)) + len(delta.body)
    assert run.publisher.pulled(2.2, b"x", Pull(version=9)) == [delta]
    assert run.publisher.pulled(2.0, b"x", Pull(version=10)) == [Send(b"x", Message(version=10, epoch=3))]


@pytest.mark.parametrize("form", ["fp32", "delta"])
def test_for_an_evaluation_the_newest_weights_go_out_whole(form: str) -> None:
    """Those of a keyframe are older."""
    run = run_of(settings_of(f"exchange.weights={form}"))
    noted = NotedSum()
    publisher = WeightPublisher(run, noted.weights, "broadcast", 0.0)
    publisher.first(0.0, b"x")
    noted.step(scale=1.0, frames=0)
    run.stats.stepped({}, 0)
    before = run.stats.counters.weight_bytes
    assert publisher.for_evaluation(1.0, b"e") == (1, body_of(1))
    assert run.stats.counters.weight_bytes == before + len(body_of(1))


def test_a_body_is_made_once_per_version() -> None:
    run = Stepping()
    publisher, stats = publisher_of(version=9)
    assert publisher.first(1.0, b"x")[1] is publisher.first(1.0, b"y")[1]
    stats.stepped({}, 0)
    assert publisher.first(1.0, b"z")[0] == 10
    run.publisher.first(1.0, b"x")
    run.published(2.0)
    first, again = (run.publisher.pulled(now, b"x", Pull(version=9)) for now in (2.1, 2.2))
    assert isinstance(first[0], Send) and isinstance(again[0], Send) and first[0].body is again[0].body
