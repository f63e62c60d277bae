from __future__ import annotations

from typing import Any

import pytest

from actor.effects import Effect, Prepare, Warn
from actor.outbox import Send
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.errors import RefusedError
from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.messages import (
    Acknowledgement,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Message,
    Pull,
    Refused,
    SiteReport,
    Welcome,
)
from relay.uplink import REPORT_SECONDS, Uplink
from tests.helpers.run import hello_of, welcome_of


class Total(Player):
    """A sum of so many rollouts."""

    contribution = Gradient

    def __init__(self) -> None:
        self.rollouts = 0
        self.loaded: list[int] = []

    @property
    def pending(self) -> int:
        return self.rollouts

    def load(self, version: int, body: Any, *, delta: bool = False) -> bool:
        self.loaded.append(version)
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        count, self.rollouts = self.rollouts, 0
        return RolloutSummary(version=10, steps=count, emulator_frames=count, count=count), b"sum"


class Bench:
    def __init__(self) -> None:
        self.actors = 3
        self.uplink = Uplink(hello_of("site", "relay"), 0.0, lambda _: SiteReport(actors=self.actors))
        self.total = Total()

    def member(self, now: float = 1.0, **changed: Any) -> list[Effect]:
        """Welcomed; what is said then."""
        effects = self.uplink.handle(now, welcome(**changed), b"weights")
        if any(isinstance(effect, Prepare) for effect in effects):
            self.uplink.player = self.total
        return [*effects, *self.uplink.tick(now)]


def welcome(**changed: Any) -> Welcome:
    return welcome_of(**({"parameters": 2, "settings": {}, "actors": 30} | changed))


def said(effects: list[Effect]) -> list[type[Message]]:
    return [type(effect.message) for effect in effects if isinstance(effect, Send)]


def test_it_says_hello_and_once_welcome_how_many_actors_it_has_before_anything_else() -> None:
    bench = Bench()
    assert said(bench.uplink.tick(0.0)) == [Hello]
    assert said(bench.member()) == [Heartbeat, SiteReport]
    assert bench.uplink.actors == 30


def test_a_report_comes_as_often_as_heartbeats_and_soon_after_a_change() -> None:
    bench = Bench()
    bench.member(1.0)
    assert said(bench.uplink.tick(1.5)) == []
    bench.uplink.site_changed(1.5, 3)
    assert bench.uplink.deadline == 3.0, "no news"
    bench.uplink.site_changed(1.6, 4)
    assert said(bench.uplink.tick(1.6)) == [SiteReport]
    bench.actors = 5
    bench.uplink.site_changed(1.7, 5)
    assert said(bench.uplink.tick(1.7)) == [], "a storm makes few reports"
    assert bench.uplink.deadline == pytest.approx(1.6 + REPORT_SECONDS)
    assert said(bench.uplink.tick(1.6 + REPORT_SECONDS)) == [SiteReport]
    assert said(bench.uplink.tick(4.2)) == [Heartbeat, SiteReport]


def test_a_sum_leaves_when_there_is_credit() -> None:
    bench = Bench()
    bench.total.rollouts = 2
    assert bench.uplink.send_sum(0.0) == [], "nobody is there"
    bench.member()
    bench.total.rollouts = 2
    (first,) = bench.uplink.send_sum(1.0)
    assert isinstance(first, Send) and isinstance(first.message, Gradient) and first.message.count == 2
    bench.total.rollouts = 3
    assert bench.uplink.send_sum(1.0) == []
    answer = Acknowledgement(sequence=1, verdict="applied", version=11, credit=1, actors=8)
    assert said(bench.uplink.handle(2.0, answer, None)) == [Gradient]
    assert bench.uplink.actors == 8


def test_all_that_it_has_is_of_one_epoch() -> None:
    bench = Bench()
    bench.member()
    again = bench.uplink.handle(2.0, welcome(), b"weights")
    assert not any(isinstance(effect, Prepare) for effect in again), "the connection broke, and that is all"
    anew = bench.uplink.handle(3.0, welcome(epoch=2), b"weights")
    assert [effect.welcome.epoch for effect in anew if isinstance(effect, Prepare)] == [2]
    assert bench.uplink.player is None
    assert said(bench.uplink.tick(3.0)) == [Heartbeat, SiteReport]


def frame(version: int = 11, epoch: int = 1, run: str = "a-run") -> bytes:
    return Broadcast(run_mark(run), epoch, version, "fp32", b"body").pack()


def test_of_broadcasts_those_of_its_run_and_epoch_are_to_be_passed_on() -> None:
    bench = Bench()
    assert bench.uplink.hear(0.0, frame()) == ([], None)
    bench.member()
    effects, news = bench.uplink.hear(1.0, frame())
    assert (effects, bench.total.loaded) == ([], [11]) and news is not None and news.version == 11
    assert bench.uplink.hear(1.0, frame(run="other"))[1] is None
    (warning,), none = bench.uplink.hear(1.0, b"x")
    assert isinstance(warning, Warn) and none is None
    assert bench.uplink.membership.member
    assert bench.uplink.hear(1.0, frame(epoch=2))[1] is None
    assert not bench.uplink.membership.member, "the learner has started again"


def test_the_learner_s_operator_hears_of_the_site() -> None:
    bench = Bench()
    bench.member()
    bench.uplink.say("a: its environment failed")
    (heartbeat, _) = (effect for effect in bench.uplink.tick(4.0) if isinstance(effect, Send))
    assert isinstance(heartbeat.message, Heartbeat)
    assert heartbeat.message.last_error == "a: its environment failed"


@pytest.mark.parametrize("changed", [{"parameters": 0}, {"codec": ""}, {"codec": "another"}])
def test_a_learner_that_does_not_say_what_to_add_up_is_left_and_asked_again(changed: dict[str, Any]) -> None:
    bench = Bench()
    assert said(bench.member(**changed)) == [Goodbye]
    assert "what a relay is to add up" in bench.uplink.membership.obstacle


def test_a_run_that_takes_no_relays_ends_it() -> None:
    bench = Bench()
    refusal = Refused(code="relay", reason="it sends actions")
    with pytest.raises(RefusedError, match="the learner refused this relay: it sends actions") as caught:
        bench.uplink.handle(1.0, refusal, None)
    assert caught.value.exit_code == 78


def test_large_weights_are_pulled() -> None:
    bench = Bench()
    effects = bench.uplink.handle(1.0, welcome(), None)
    assert said(effects) == [Pull]
