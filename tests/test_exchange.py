"""The learner's core and actors' cores against each other, on a network that loses, delays, repeats and reorders."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from actor.core import SLOW_PULL_SECONDS
from learner.parameters.pulls import UNDER_WAY_SECONDS
from learner.run_stats import Counters
from tests.helpers.examples import examples
from tests.helpers.link import ActorShell, Link, Wires
from tests.helpers.lossy import LossyNetwork, indices

CREDIT, ACCUMULATE = (1, 3), (1, 4)
HEALED_SECONDS = UNDER_WAY_SECONDS + SLOW_PULL_SECONDS + 10.0
"""Until weights that were lost without a break of the connection are asked for, and sent, once more."""
PACED_SECONDS = 10.0
"""Until answers that were held back are given: after the silence all actors play faster than any of them had."""


class Exchange(LossyNetwork):
    """Any order of events; what must hold in between, and that the run goes on once the network does."""

    link: Link

    @initialize(
        actors=st.sampled_from([1, 2, 12, 16]),
        credit=st.integers(*CREDIT),
        accumulate=st.integers(*ACCUMULATE),
        coalesce=st.sampled_from([1, 2, 16]),
        refuse_factor=st.sampled_from([0.0, 1.0, 4.0]),
        weights=st.sampled_from(["fp32", "delta"]),
        connected=st.booleans(),
    )
    def start(
        self,
        actors: int,
        credit: int,
        accumulate: int,
        coalesce: int,
        refuse_factor: float,
        weights: str,
        connected: bool,
    ) -> None:
        self.credit, self.accumulate = credit, accumulate
        self.link = Link(
            f"exchange.credit={credit}",
            f"exchange.accumulate={accumulate}",
            f"exchange.coalesce={coalesce}",
            f"staleness.refuse_factor={refuse_factor}",
            f"exchange.weights={weights}",
            "record.gradients=true",
            actors=actors,
        )
        self.saved = Counters()
        self.steps_checked = 0
        if connected:
            self.link.settle()

    def actor(self, index: int) -> ActorShell:
        return self.link.actors[index % len(self.link.actors)]

    def wires(self, index: int) -> Wires:
        return self.actor(index).wires

    # -- what happens -----------------------------------------------------------------------------------------------

    @rule(index=indices)
    def plays(self, index: int) -> None:
        self.link.play(self.actor(index))

    @rule()
    def all_play(self) -> None:
        for actor in self.link.actors:
            self.link.play(actor)

    @rule(index=indices, messages=st.integers(1, 4))
    def learner_reads(self, index: int, messages: int) -> None:
        actor = self.actor(index)
        for _ in range(min(messages, len(actor.wires.up))):
            self.link.deliver_up(actor)

    @rule()
    def learner_reads_all(self) -> None:
        for actor in self.link.actors:
            while actor.wires.up:
                self.link.deliver_up(actor)

    @rule(index=indices, messages=st.integers(1, 4))
    def actor_reads(self, index: int, messages: int) -> None:
        actor = self.actor(index)
        for _ in range(min(messages, len(actor.wires.down))):
            self.link.deliver_down(actor)

    @rule(index=indices)
    def actor_hears_the_broadcast(self, index: int) -> None:
        actor = self.actor(index)
        if actor.wires.news:
            self.link.deliver_news(actor)

    @rule()
    def learner_takes_a_step(self) -> None:
        self.link.flush()

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 3.0, 11.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.link.tick(seconds)

    @rule(seconds=st.sampled_from([0.05, 1.0]))
    def network_is_fast(self, seconds: float) -> None:
        self.link.settle(seconds)

    @rule()
    def learner_saves(self) -> None:
        self.saved = msgspec.convert(self.link.learner.run.stats.saved(self.link.now), Counters)

    @precondition(lambda self: self.link.epoch < 4)
    @rule()
    def learner_restarts(self) -> None:
        self.link.restart(msgspec.convert(msgspec.to_builtins(self.saved), Counters))
        self.steps_checked = 0

    @precondition(lambda self: len(self.link.actors) < 20)
    @rule()
    def an_actor_starts(self) -> None:
        self.link.join()

    @precondition(lambda self: len(self.link.actors) > 1)
    @rule(index=indices, says_goodbye=st.booleans())
    def an_actor_leaves(self, index: int, says_goodbye: bool) -> None:
        actor = self.actor(index)
        if says_goodbye:
            actor.do(actor.core.leave("stopped by a signal"))
            assert actor.left
            for _ in range(len(actor.wires.up)):
                self.link.deliver_up(actor)
        self.link.actors.remove(actor)

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def no_rollout_is_applied_twice(self) -> None:
        applied = self.link.applied()
        assert len(applied) == len(set(applied))

    @invariant()
    def the_record_is_of_what_was_applied(self) -> None:
        assert self.link.recorded_steps() == [step for store in self.link.stores for step in store.steps]

    @invariant()
    def no_more_gradients_are_unanswered_than_credit_allows(self) -> None:
        for actor in self.link.actors:
            assert len(actor.bodies) <= self.credit

    @invariant()
    def no_more_rollouts_are_added_up_than_settings_allow(self) -> None:
        for actor in self.link.actors:
            assert len(actor.sum) <= self.accumulate
            assert all(len(rollouts) <= self.accumulate for rollouts in actor.shipped.values())

    @invariant()
    def versions_only_grow(self) -> None:
        for actor in self.link.actors:
            assert all(before < after for before, after in pairwise(actor.loaded))
        assert all(before < after for before, after in pairwise(self.link.published))

    @invariant()
    def a_step_takes_no_more_gradients_than_a_fifth_of_the_actors(self) -> None:
        steps = [len(added) for added, _, _ in self.link.store.steps]
        for size, limit in list(zip(steps, self.link.step_limits, strict=True))[self.steps_checked :]:
            assert 1 <= size <= limit
        self.steps_checked = len(self.link.store.steps)

    @invariant()
    def the_run_stats_agree_with_the_store(self) -> None:
        counters, store = self.link.learner.run.stats.counters, self.link.store
        assert counters.version == store.version
        if self.link.epoch == 1:
            assert counters.gradients == sum(len(added) for added, _, _ in store.steps)
        assert counters.refused == 0

    def works_again(self, mine: set[int], new: set[int]) -> bool:
        """Whether an actor whose rollouts are `mine` took part in what was applied since the network healed."""
        return bool(mine & new)

    def teardown(self) -> None:
        """The network heals: all actors get work done again, and nothing is unaccounted for."""
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
            self.no_rollout_is_applied_twice()
        link.settle(PACED_SECONDS)
        applied = link.applied()
        for actor in link.actors:
            assert actor.core.state == "working"
            assert not actor.bodies and not actor.sum
            mine = {rollout for rollouts in actor.shipped.values() for rollout in rollouts}
            assert self.works_again(mine, set(applied) - before), f"{actor.name} does not work again"
            turned_down = {
                rollout
                for name, sequence, verdict in link.verdicts
                if name == actor.name and verdict in ("stale", "refused")
                for rollout in actor.shipped[sequence]
            }
            assert mine <= set(applied) | turned_down | actor.given_up
            assert not turned_down & set(applied)


TestExchange = Exchange.TestCase
TestExchange.pytestmark = [pytest.mark.timeout(400)]  # a failure is made smaller for up to five minutes
TestExchange.settings = settings(
    max_examples=examples(40), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


def test_gradients_of_the_epoch_before_are_refused_and_the_actors_join_again() -> None:
    link = Link("exchange.credit=2", actors=3)
    link.settle()
    for actor in link.actors:
        link.play(actor)
        assert actor.core.state == "working"
    link.restart(Counters())  # the gradients are still under way
    for actor in link.actors:
        link.deliver_up(actor)
    assert not link.store.added and not link.store.steps
    link.settle()
    for actor in link.actors:
        assert actor.core.membership.member
        assert actor.given_up == set(actor.shipped[1])
        assert actor.loaded[-1] == (2, 0)
        assert actor.prepared == 1, "the environments go on"
        link.play(actor)
    link.settle()
    assert len(link.applied()) == 3


def test_a_broadcast_of_a_newer_epoch_makes_actors_join_again_without_waiting_for_silence() -> None:
    link = Link(actors=2)
    link.settle()
    link.restart(Counters(version=50))
    active, idle = link.actors
    active.core.membership.lost(link.now)
    link.tick(0.1)
    link.deliver_up(active)
    link.deliver_down(active)
    link.play(active)
    link.deliver_up(active)
    assert idle.core.state == "working"
    link.deliver_news(idle)
    assert idle.core.state == "joining"
    link.settle()
    assert idle.core.membership.welcome is not None
    assert (idle.core.membership.welcome.epoch, idle.loaded[-1]) == (2, (2, 51))


def test_an_actor_that_never_hears_a_broadcast_pulls_and_goes_on_learning() -> None:
    link = Link("staleness.refuse_factor=4", actors=2)
    deaf, other = link.actors
    link.settle()
    for _ in range(100):
        for actor in link.actors:
            link.play(actor)
        deaf.wires.news.clear()
        link.tick(0.2)
        deaf.wires.news.clear()
        for actor in link.actors:
            while actor.wires.up:
                link.deliver_up(actor)
            deaf.wires.news.clear()
            while actor.wires.down:
                link.deliver_down(actor)
        if other.wires.news:
            link.deliver_news(other)
    verdicts = [verdict for name, _, verdict in link.verdicts if name == deaf.name]
    assert verdicts.count("applied") > 60


def test_of_two_gradients_under_way_the_first_may_be_lost_and_come_later() -> None:
    link = Link("exchange.credit=2")
    (actor,) = link.actors
    link.settle()
    link.play(actor)
    actor.wires.up.clear()  # lost with its connection
    link.play(actor)
    link.settle()
    assert link.applied() == [1]
    link.settle(11.0)
    assert link.applied() == [1, 0]
    assert not actor.bodies
