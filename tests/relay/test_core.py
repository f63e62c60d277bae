from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from actor.outbox import Send as ToLearner
from common.errors import ProtocolError, RefusedError, WireError
from common.settings.exchanges import MOST_SUMMED
from common.wire.messages import (
    FleetReport,
    Goodbye,
    Heartbeat,
    Inspect,
    Observe,
    Pull,
    Refused,
    SiteReport,
    Stop,
    Weights,
    Welcome,
)
from learner.connections import Progress
from learner.effects import Disconnect, Log
from learner.effects import Send as ToSite
from learner.run_stats import Counters
from relay.core import RelayCore
from relay.effects import Effect
from tests.helpers.run import gradient_of, hello_of
from tests.helpers.site_link import RELAY_PORT, SiteLink


def played(link: SiteLink, turns: int = 1) -> None:
    for _ in range(turns):
        for actor in link.actors:
            link.play(actor)
        link.settle()


def to_site(effects: list[Effect], kind: type[Any]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, ToSite) and isinstance(effect.message, kind)]


def test_what_the_actors_of_a_site_play_is_applied_once_and_the_learner_knows_how_many_they_are() -> None:
    link = SiteLink(actors=5)
    link.settle()
    played(link, 4)
    assert Counter(link.applied()) == Counter(range(20))
    status = link.learner.run.status(link.now)
    assert (status.actors_now, status.actors, [relay.actors for relay in status.relays]) == (5, [], [5])
    assert status.frames == 20 * 20


def test_while_the_learner_is_away_the_sum_grows_to_its_bound_and_then_the_actors_hold() -> None:
    link = SiteLink("exchange.accumulate=2", actors=20)
    (site,) = link.sites
    link.settle()
    for _ in range(5):
        for actor in link.actors:
            link.play(actor)
            while actor.wires.up:
                link.deliver_up(actor)
            while actor.wires.down:
                link.deliver_down(actor)
    assert [actor.core.state for actor in link.actors].count("waiting") >= len(link.actors) - MOST_SUMMED
    assert sum(len(actor.sum) for actor in link.actors) <= 2 * len(link.actors)
    (under_way,) = [rollouts for _, header, rollouts in site.sums]
    assert 1 <= len(under_way) <= MOST_SUMMED
    link.settle(10.0)
    link.settle(10.0)
    assert all(count == 1 for count in Counter(link.applied()).values())
    assert all(len(rollouts) <= MOST_SUMMED for _, _, rollouts in site.sums)
    assert {actor.core.state for actor in link.actors} == {"working"}


def test_a_learner_that_comes_back_has_its_relay_and_the_relay_its_actors() -> None:
    link = SiteLink(actors=3)
    (site,) = link.sites
    link.settle()
    played(link)
    link.restart_learner(msgspec.convert(link.learner.run.stats.saved(link.now), Counters))
    link.settle(40.0)  # until the relay takes it for silent, unless it hears of it before
    link.settle(10.0)
    for actor in link.actors:
        assert actor.core.membership.welcome is not None and actor.core.membership.welcome.epoch == 2
        assert actor.prepared == 1, "its environments go on"
    assert len(site.served) == 2
    before = len(link.applied())
    played(link)
    assert len(link.applied()) == before + 3


def test_a_relay_that_comes_back_has_its_actors_and_nothing_counts_twice() -> None:
    link = SiteLink(actors=3)
    (site,) = link.sites
    link.settle()
    for actor in link.actors:
        link.play(actor)
        while actor.wires.up:
            link.deliver_up(actor)  # in a sum, and nobody is told
    link.tick(0.1)
    while site.wires.up:
        link.deliver_sum(site)
    link.tick(0.1)
    taken = set(link.applied())
    assert taken
    link.restart_relay(site)
    link.settle(20.0)
    link.settle(20.0)
    played(link, 2)
    applied = link.applied()
    assert len(applied) == len(set(applied)) and taken < set(applied)
    assert {actor.core.state for actor in link.actors} == {"working"}
    assert [relay.actors for relay in link.learner.run.status(link.now).relays] == [3]


def test_when_the_run_is_over_all_are_told_and_who_comes_late_too() -> None:
    link = SiteLink("limits.frames=20", actors=2)
    (site,) = link.sites
    link.settle()
    played(link)
    assert site.left.startswith("reached") or "frames" in site.left
    assert all(actor.left for actor in link.actors)
    assert site.core.present == 0
    late = site.core.handle(link.now, b"late", hello_of("late"), None)
    assert [stop.final for stop in to_site(late, Stop)] == [True]
    assert site.core.handle(link.now, b"late", Heartbeat(), None) == []
    assert site.core.tick(link.now + 100.0) == []


def test_those_who_have_not_said_goodbye_are_told_again() -> None:
    link = SiteLink(actors=2)
    (site,) = link.sites
    link.settle()
    site.core.stop("done", final=True)
    assert [stop.final for stop in to_site(site.core.remind(), Stop)] == [True, True]
    site.core.handle(link.now, b"actor0", Goodbye(reason="over"), None)
    assert (site.core.present, len(site.core.remind())) == (1, 1)


def test_a_relay_that_is_stopped_tells_both_sides_and_its_actors_expect_another_one() -> None:
    link = SiteLink(actors=2)
    (site,) = link.sites
    link.settle()
    effects = site.core.stop("the relay was stopped")
    assert [stop.final for stop in to_site(effects, Stop)] == [False, False]
    assert [effect.message for effect in effects if isinstance(effect, ToLearner)] == [
        Goodbye(reason="the relay was stopped")
    ]


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ("exchange.kind=trajectories", 'exchange.kind = "trajectories"'),
        ("staleness.policy=synchronous", "each step of this run waits"),
        ("exchange.credit=0", "exchange.credit = 0"),
    ],
)
def test_a_run_whose_actors_send_what_cannot_be_added_up_ends_the_relay(assignment: str, why: str) -> None:
    link = SiteLink(assignment, actors=0)
    with pytest.raises(RefusedError, match=why):
        link.settle()


class Site:
    """A relay in a run, whose actor `a` has joined."""

    def __init__(self) -> None:
        self.link = SiteLink(actors=0)
        self.link.settle()
        (site,) = self.link.sites
        self.core: RelayCore = site.core
        assert to_site(self.handle(hello_of("a")), Welcome)

    def handle(self, message: Any, body: bytes | None = None, *, at: bytes = b"a", **given: Any) -> list[Effect]:
        return self.core.handle(self.link.now, at, message, body, **given)


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_stranger_is_told_to_say_hello_and_its_goodbye_needs_no_answer(site: Site) -> None:
    for message in (Heartbeat(), gradient_of(), Pull(version=0)):
        assert [one.code for one in to_site(site.handle(message, at=b"?"), Refused)] == ["unknown"]
    assert site.handle(Goodbye(reason=""), at=b"?") == []
    assert [one.code for one in to_site(site.handle(Heartbeat(), key_name="other"), Refused)] == ["unknown"]


@pytest.mark.parametrize(
    "message",
    [
        Inspect(),
        SiteReport(actors=3),
        FleetReport(slots=1, running=0, starting=0, failed=0),
        Stop(reason="", final=True),
    ],
)
def test_what_no_actor_may_send_is_refused(site: Site, message: Any) -> None:
    assert [one.code for one in to_site(site.handle(message), Refused)] == ["role"]


def test_observations_are_for_runs_of_another_kind(site: Site) -> None:
    (refused,) = to_site(site.handle(Observe(run="a-run", epoch=1, group=0, step=1), b""), Refused)
    assert refused.code == "role" and "gradients" in refused.reason


def test_bytes_that_are_no_message_end_the_connection_of_a_stranger_only(site: Site) -> None:
    found = site.core.malformed(b"?", WireError("no msgpack"))
    assert [type(effect) for effect in found] == [Log, Disconnect]
    assert [type(effect) for effect in site.core.malformed(b"a", WireError("no msgpack"))] == [Log]
    (refused, _) = site.core.malformed(b"?", ProtocolError("protocol 2 is not 3"))
    assert isinstance(refused, ToSite) and isinstance(refused.message, Refused) and refused.message.code == "protocol"


def test_a_heartbeat_is_answered_and_what_failed_is_told_to_the_learner(site: Site) -> None:
    said = Heartbeat(state="working", last_error="the environment raised", processor=0.5, memory=1, memory_total=2)
    effects = site.handle(said)
    assert to_site(effects, Heartbeat) == [Heartbeat()]
    assert ["a: the environment raised" in effect.text for effect in effects if isinstance(effect, Log)] == [True]
    site.link.settle(3.0)
    (relay,) = site.link.learner.run.status(site.link.now).relays
    assert relay.last_error == "a: the environment raised"


def test_a_pull_is_answered_from_what_is_kept(site: Site) -> None:
    (weights,) = to_site(site.handle(Pull(version=0)), Weights)
    assert (weights.version, weights.epoch) == (0, 1)


def test_who_leaves_or_falls_silent_is_no_longer_counted(site: Site) -> None:
    site.handle(hello_of("b"), at=b"b")
    site.link.settle(1.0)
    site.handle(Heartbeat(state="working"), at=b"b")
    assert site.link.learner.run.peers.actors == 2
    left = site.handle(Goodbye(reason="stopped"))
    assert [effect.text for effect in left if isinstance(effect, Log)] == ["actor a left: stopped"]
    lines: list[str] = []
    for _ in range(40):
        site.link.now += 1.0
        site.core.progress({b"?": Progress(site.link.now, 1)})
        lines += [effect.text for effect in site.core.tick(site.link.now) if isinstance(effect, Log)]
    assert any(line.startswith("actor b has been silent for 30 s") for line in lines)
    assert site.core.present == 0


def test_who_sends_a_long_message_is_not_silent(site: Site) -> None:
    for _ in range(40):
        site.link.now += 1.0
        site.core.progress({b"a": Progress(site.link.now, 1)})
        site.core.tick(site.link.now)
    assert site.core.present == 1


def test_keys_that_are_revoked_end_their_actors(site: Site) -> None:
    site.core.allow({"lab": ("actor",)})
    site.handle(hello_of("lab/0"), at=b"lab", key_name="lab")
    assert site.core.present == 2
    (line,) = site.core.revoke({"lab"})
    assert isinstance(line, Log) and site.core.present == 1


def test_actors_are_told_where_the_relay_passes_weights_on(site: Site) -> None:
    (welcome,) = to_site(site.handle(hello_of("b"), at=b"b"), Welcome)
    assert (welcome.weights_port, welcome.relay) == (RELAY_PORT, "site0-1")
    assert site.core.membership.hello.role == "relay"
