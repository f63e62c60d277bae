"""A learner's, relays' and actors' cores against each other, on a network that loses, delays, repeats and reorders."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from actor.core import SLOW_PULL_SECONDS
from common.settings.exchanges import MOST_SUMMED
from learner.parameters.pulls import UNDER_WAY_SECONDS
from learner.run_stats import Counters
from tests.helpers.examples import examples
from tests.helpers.link import Wires
from tests.helpers.lossy import LossyNetwork, indices
from tests.helpers.site_link import Site, SiteActor, SiteLink

HEALED_SECONDS = 2 * (UNDER_WAY_SECONDS + SLOW_PULL_SECONDS) + 10.0
"""Until weights that were lost on both ways without a break of the connection are asked for, and sent, once more."""
PACED_SECONDS = 10.0
"""Until answers that were held back are given."""


class Relayed(LossyNetwork):
    """Any order of events; what must hold in between, and that the run goes on once the network does."""

    link: SiteLink

    @initialize(
        actors=st.sampled_from([1, 2, 9, 24]),
        relays=st.sampled_from([1, 2, 3]),
        credit=st.integers(1, 3),
        weights=st.sampled_from(["fp32", "delta"]),
        connected=st.booleans(),
    )
    def start(self, actors: int, relays: int, credit: int, weights: str, connected: bool) -> None:
        self.link = SiteLink(f"exchange.credit={credit}", f"exchange.weights={weights}", actors=actors, relays=relays)
        self.credit = credit
        self.saved = Counters()
        if connected:
            self.link.settle()

    def actor(self, index: int) -> SiteActor:
        return self.link.actors[index % len(self.link.actors)]

    def site(self, index: int) -> Site:
        return self.link.sites[index % len(self.link.sites)]

    def wires(self, index: int) -> Wires:
        both = [*self.link.sites, *self.link.actors]
        return both[index % len(both)].wires

    # -- what happens -----------------------------------------------------------------------------------------------

    @rule()
    def all_play(self) -> None:
        for actor in self.link.actors:
            self.link.play(actor)

    @rule(index=indices, messages=st.integers(1, 30))
    def relay_reads(self, index: int, messages: int) -> None:
        site = self.site(index)
        waiting = [actor for actor in self.link.actors if actor.site is site for _ in actor.wires.up]
        for actor in waiting[:messages]:
            self.link.deliver_up(actor)

    @rule(index=indices)
    def actor_reads(self, index: int) -> None:
        actor = self.actor(index)
        while actor.wires.down:
            self.link.deliver_down(actor)
        if actor.wires.news:
            self.link.deliver_news(actor)

    @rule(index=indices, messages=st.integers(1, 4))
    def learner_reads(self, index: int, messages: int) -> None:
        site = self.site(index)
        for _ in range(min(messages, len(site.wires.up))):
            self.link.deliver_sum(site)

    @rule(index=indices, messages=st.integers(1, 4))
    def relay_hears(self, index: int, messages: int) -> None:
        site = self.site(index)
        for _ in range(min(messages, len(site.wires.down))):
            self.link.deliver_answer(site)
        if site.wires.news:
            self.link.deliver_broadcast(site)

    @rule(seconds=st.sampled_from([0.01, 0.5, 3.0, 11.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.link.tick(seconds)

    @rule()
    def network_is_fast(self) -> None:
        self.link.settle(0.5)

    @rule()
    def learner_saves(self) -> None:
        self.saved = msgspec.convert(self.link.learner.run.stats.saved(self.link.now), Counters)

    @precondition(lambda self: self.link.epoch < 4)
    @rule()
    def learner_restarts(self) -> None:
        self.link.restart_learner(msgspec.convert(msgspec.to_builtins(self.saved), Counters))

    @rule(index=indices)
    def relay_restarts(self, index: int) -> None:
        self.link.restart_relay(self.site(index))

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def no_rollout_is_in_two_steps(self) -> None:
        assert all(count == 1 for count in Counter(self.link.applied()).values())

    @invariant()
    def no_rollout_is_in_two_sums(self) -> None:
        for site in self.link.sites:
            sums = {(life, header.epoch, header.sequence): rollouts for life, header, rollouts in site.sums}
            assert all(count == 1 for count in Counter(one for sum_ in sums.values() for one in sum_).values())

    @invariant()
    def a_sum_says_what_is_in_it_and_is_not_too_long(self) -> None:
        for site in self.link.sites:
            for _, header, rollouts in site.sums:
                assert header.summed and header.count == len(rollouts) <= MOST_SUMMED
                assert header.steps == 20 * header.count

    @invariant()
    def nobody_is_refused(self) -> None:
        assert self.link.learner.run.stats.counters.refused == 0

    def teardown(self) -> None:
        """The network heals: all actors get work done again."""
        if not hasattr(self, "link"):
            return
        link = self.link
        healed = link.now
        while link.now < healed + HEALED_SECONDS:
            link.settle(5.0)
        before = set(link.applied())
        for _ in range(6):
            for actor in link.actors:
                link.play(actor)
            link.settle(1.0)
        link.settle(PACED_SECONDS)
        link.settle(PACED_SECONDS)
        self.no_rollout_is_in_two_steps()
        self.no_rollout_is_in_two_sums()
        new = set(link.applied()) - before
        for actor in link.actors:
            assert actor.core.state == "working" and not actor.bodies
            mine = {rollout for rollouts in actor.shipped.values() for rollout in rollouts}
            assert mine & new, f"{actor.name} does not work again"
        assert link.learner.run.peers.actors == len(link.actors)


TestRelayed = Relayed.TestCase
TestRelayed.pytestmark = [pytest.mark.timeout(400)]  # a failure is made smaller for up to five minutes
TestRelayed.settings = settings(
    max_examples=examples(20), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
