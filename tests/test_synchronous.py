"""Synchronous averaging: nothing lost or applied twice on a bad network, and each step the plain mean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from common.run.folder import RunFolder, RunRecord
from common.settings.sections import Optimizer
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Acknowledgement
from learner.build import assemble
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from learner.run_stats import Counters
from tests.helpers.examples import examples
from tests.helpers.link import ActorShell, Link
from tests.helpers.run import ONE_CODEC, core_of, gradient_of, hello_of, run_of, sent, settings_of
from tests.test_exchange import Exchange, indices

SIZE = 5


class Synchronous(Exchange):
    """The same events as without; what differs is when a step is taken, and with what."""

    @initialize(
        actors=st.sampled_from([1, 2, 5, 12]),
        share=st.sampled_from([1.0, 0.5]),
        wait_seconds=st.sampled_from([0.5, 4.0]),
        connected=st.booleans(),
    )
    def start(self, actors: int, share: float, wait_seconds: float, connected: bool) -> None:  # type: ignore[override]
        self.credit, self.accumulate = 1, 1
        self.share = share
        self.sender: dict[int, str] = {}
        self.link = Link(
            "staleness.policy=synchronous",
            f"staleness.share={share}",
            f"staleness.wait_seconds={wait_seconds}",
            "record.gradients=true",
            actors=actors,
        )
        self.saved = Counters()
        self.steps_checked = 0
        if connected:
            self.link.settle()

    @rule()
    def a_round_is_played_on_a_good_network(self) -> None:
        self.link.settle()
        for actor in self.link.actors:
            self.link.play(actor)
        self.link.settle()

    @invariant()
    def a_step_takes_no_more_gradients_than_a_fifth_of_the_actors(self) -> None:
        """Overrides what holds otherwise: here it takes one of each actor at most."""
        sender = self.noted_senders()
        for added, _, _ in self.link.store.steps[self.steps_checked :]:
            rollouts = [rollout for body, *_ in added for rollout in json.loads(body)]
            assert len(rollouts) == len(added)
            senders = [sender[rollout] for rollout in rollouts]
            assert len(senders) == len(set(senders))
        self.steps_checked = len(self.link.store.steps)

    @invariant()
    def only_gradients_of_the_newest_version_are_taken(self) -> None:
        assert all(lag == 0 for store in self.link.stores for lag in store.lags)

    @rule(index=indices)
    def a_gradient_comes_twice_and_its_actor_plays_on(self, index: int) -> None:
        actor = self.actor(index)
        self.link.play(actor)
        actor.wires.up += actor.wires.up[-1:]
        self.learner_reads(index, 4)
        self.actor_reads(index, 4)
        self.link.play(actor)
        self.learner_reads(index, 4)

    @rule()
    def a_step_that_can_be_taken_is_taken(self) -> None:
        self.link.flush()
        sender = self.noted_senders()
        added, peers = self.link.store.added, self.link.learner.run.peers
        present = {peer.hello.name for _, peer in peers.role("actor")}
        sent = {sender[rollout] for body, *_ in added for rollout in json.loads(body)}
        assert not added or len(sent & present) < self.share * len(present)

    def works_again(self, mine: set[int], new: set[int]) -> bool:
        """Where a share is enough, the same ones may always be late; they are answered, as the teardown looks."""
        return bool(new) and (self.share < 1.0 or super().works_again(mine, new))

    def noted_senders(self) -> dict[int, str]:
        """Of every rollout that was sent; noted after every event, since actors leave."""
        for actor in self.link.actors:
            self.sender |= {rollout: actor.name for rollouts in actor.shipped.values() for rollout in rollouts}
        return self.sender


TestSynchronous = Synchronous.TestCase
TestSynchronous.pytestmark = [pytest.mark.timeout(400)]
TestSynchronous.settings = settings(
    max_examples=examples(40), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_on_a_good_network_every_round_is_one_step_of_all_and_none_is_stale(share: float) -> None:
    link = Link("staleness.policy=synchronous", f"staleness.share={share}", actors=4)
    link.settle()
    for _ in range(5):
        for actor in link.actors:
            link.play(actor)
        link.settle(0.0)
    per_step = [len(added) for added, _, _ in link.store.steps]
    verdicts = [verdict for *_, verdict in link.verdicts]
    if share == 1.0:
        assert (per_step, set(verdicts)) == ([4] * 5, {"applied"})
    else:
        assert per_step == [2] * 5 and verdicts.count("stale") == 10
    assert not link.published
    assert all(actor.loaded[-1] == (1, 5) for actor in link.actors)


def test_an_actor_that_hangs_holds_a_step_up_for_the_longest_wait_and_no_longer() -> None:
    link = Link("staleness.policy=synchronous", "staleness.wait_seconds=3", actors=3)
    link.settle()
    for actor in link.actors[1:]:
        link.play(actor)
    link.settle(2.9)
    link.tick(2.9)
    assert link.store.steps == []
    link.tick(0.2)
    assert [len(added) for added, _, _ in link.store.steps] == [2]
    link.settle()
    assert [actor.core.state for actor in link.actors] == ["working"] * 3


def test_an_actor_that_hangs_holds_one_step_up_is_named_and_is_waited_for_when_it_is_back() -> None:
    link = Link("staleness.policy=synchronous", "staleness.wait_seconds=3", actors=3)
    link.settle()

    def steps_of(*actors: ActorShell) -> list[int]:
        before = len(link.store.steps)
        for actor in actors:
            link.play(actor)
        link.settle(0.0)
        return [len(added) for added, _, _ in link.store.steps[before:]]

    first, *others = link.actors
    assert steps_of(*link.actors) == [3]
    assert steps_of(*others) == []
    link.tick(3.1)
    link.settle(0.0)
    assert len(link.store.steps) == 2
    late = f"{first.name} kept a step waiting for 3 s: no step waits for it until it sends again"
    assert link.learner.run.status(link.now).warnings == [late]
    assert steps_of(*others) == [2], "at once"
    assert steps_of(first) == [], "its rollout was too old"
    assert steps_of(*others) == []
    assert steps_of(first) == [3]


def test_who_joins_others_is_waited_for_once_it_plays() -> None:
    link = Link("staleness.policy=synchronous", actors=2)
    link.settle()

    def steps_after_a_round() -> int:
        for actor in link.actors[:2]:
            link.play(actor)
        link.settle(0.0)
        return len(link.store.steps)

    assert steps_after_a_round() == 1
    new = link.join()
    link.settle()
    assert steps_after_a_round() == 2, "its environments may not be made yet"
    link.play(new)
    link.settle(0.0)
    assert link.verdicts[-1][0::2] == (new.name, "stale")
    assert steps_after_a_round() == 2
    link.play(new)
    link.settle(0.0)
    assert [len(added) for added, _, _ in link.store.steps] == [2, 2, 3]


@pytest.mark.parametrize(
    ("assignments", "average"),
    [
        (("algorithm.kind=a2c",), True),
        (("algorithm.kind=ppo",), True),
        (("algorithm.kind=ppo", "exchange.kind=gradients"), True),
        (("staleness.policy=synchronous",), True),
        (("algorithm.kind=vtrace",), False),
        ((), False),
    ],
)
def test_a_learner_averages_where_it_waits_for_all(assignments: tuple[str, ...], average: bool) -> None:
    record = RunRecord(run="", created="", epoch=1, a3cd="")
    exchange = assemble(RunFolder(Path()), record, settings_of(*assignments), None).exchange
    assert exchange._collected._average is average  # type: ignore[attr-defined]


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.permutations(range(6)),
    present=st.integers(1, 6),
    rounds=st.integers(1, 3),
)
def test_the_weights_are_those_of_the_plain_average_taken_by_hand(
    seed: int, order: list[int], present: int, rounds: int
) -> None:
    chosen = settings_of("staleness.policy=synchronous", *ONE_CODEC)
    vector = torch.zeros(SIZE)
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.5), vector, 0)
    weights = Weights(optimizer, np.zeros(0, np.float32))
    core = core_of(run_of(chosen), GradientSum(weights, average=True), 0.0)
    names = [str(number).encode() for number in order if number < present]
    for name in names:
        core.handle(0.0, name, hello_of(name.decode()), None)
    random, by_hand = np.random.default_rng(seed), np.zeros(SIZE)
    for number in range(rounds):
        gradients = random.standard_normal((present, SIZE)).astype(np.float32)
        answers = []
        for name, gradient in zip(names, gradients, strict=True):
            body = make_codec("none", SIZE).encode(gradient)
            if number:  # what is not of the newest version changes nothing
                late = core.handle(1.0, name, gradient_of(2 * number + 1, number - 1), body)
                assert [one.verdict for one in sent(late, Acknowledgement)] == ["stale"]
            effects = core.handle(1.0, name, gradient_of(2 * number + 2, number), body)
            answers += sent(effects, Acknowledgement)
        by_hand = by_hand - 0.5 * sum(gradients.astype(np.float64)) / present
        assert [one.verdict for one in answers] == ["applied"] * present
        np.testing.assert_allclose(vector.numpy(), by_hand, rtol=1e-5, atol=1e-6)
