"""`reproducible = true`: the same settings give the same weights, whoever comes first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.settings.sections import Optimizer
from common.wire.codecs.registry import make as make_codec
from common.wire.messages import Acknowledgement, Goodbye, Heartbeat, Refused, Welcome
from common.wire.messages import Weights as WeightsMessage
from learner.core import LearnerCore
from learner.effects import Effect, Finish, Send
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from tests.helpers.examples import examples
from tests.helpers.run import ONE_CODEC, core_of, gradient_of, hello_of, learner_of, run_of, sent, settings_of

SIZE = 7
REPRODUCIBLE = (
    "reproducible=true",
    "staleness.policy=synchronous",
    "optimizer.device=cpu",
    "scaling.minimum=3",
    "limits.frames=120",
)
"""Each gradient is of 20 steps: two rounds."""
NAMES = ("a", "b", "c")


def finishes(effects: list[Effect]) -> list[Finish]:
    return [effect for effect in effects if isinstance(effect, Finish)]


def learner() -> tuple[LearnerCore, Weights]:
    vector = torch.zeros(SIZE)
    weights = Weights(make_optimizer(Optimizer(learning_rate=0.1), vector, 0), np.zeros(0, np.float32))
    core = core_of(run_of(settings_of(*REPRODUCIBLE, *ONE_CODEC)), GradientSum(weights, average=True), 0.0)
    return core, weights


def played(joins: list[str], orders: list[list[str]]) -> str:
    """The weights of a run whose actors joined in that order, and sent in these; each plays by its seed."""
    core, weights = learner()
    seeds = {}
    for name in joins:
        (welcome,) = sent(core.handle(0.0, name.encode(), hello_of(name), None), Welcome)
        seeds[name] = welcome.seed
    codec = make_codec("none", SIZE)
    for number, order in enumerate(orders):
        for name in order:
            # Of lengths that differ: their sum depends on the order in which it is taken.
            gradient = np.random.default_rng([seeds[name], number]).standard_normal(SIZE).astype(np.float32)
            body = codec.encode(gradient * np.float32(10.0 ** (seeds[name] % 3)))
            effects = core.handle(float(number), name.encode(), gradient_of(number + 1, number), body)
    assert finishes(effects)[0].ending == "finished"
    return weights.digest


@settings(max_examples=examples(50))
@given(joins=st.permutations(NAMES), first=st.permutations(NAMES), second=st.permutations(NAMES))
def test_the_weights_do_not_depend_on_who_comes_first(joins: list[str], first: list[str], second: list[str]) -> None:
    assert played(joins, [first, second]) == played(list(NAMES), [list(NAMES), list(NAMES)])


def test_the_order_of_the_sum_would_show() -> None:
    """What the test above relies on."""
    vectors = [np.random.default_rng([seed, 0]).standard_normal(SIZE) * 10.0**seed for seed in range(3)]
    sums = {sum(order).tobytes() for order in itertools.permutations(one.astype(np.float32) for one in vectors)}
    assert len(sums) > 1


def test_each_step_takes_one_of_each_and_the_run_ends_with_the_one_that_reaches_the_limit() -> None:
    core, store = learner_of(*REPRODUCIBLE)
    for name in NAMES:
        core.handle(0.0, name.encode(), hello_of(name), None)
    for number in range(2):
        for name in NAMES[:2]:
            assert core.handle(0.0, name.encode(), gradient_of(number + 1, number), b"gradient") == []
        core.tick(12.0 * (number + 1))  # longer than staleness.wait_seconds
        assert len(store.steps) == number
        effects = core.handle(0.0, b"c", gradient_of(number + 1, number), b"gradient")
        answers = [effect.message for effect in effects if isinstance(effect, Send)]
        kinds = [type(message) for message in answers if isinstance(message, WeightsMessage | Acknowledgement)]
        assert kinds == [WeightsMessage, Acknowledgement] * 3
    (finish,) = finishes(effects)
    assert (finish.ending, finish.status.frames, finish.status.version) == ("finished", 120, 2)
    assert len(finish.status.weights) == 64
    assert core.run.status(0.0).weights == ""
    assert core.tick(60.0) == [], "nothing is due any more, no second last row and no order"


def test_it_begins_when_all_actors_are_there_and_takes_no_more() -> None:
    core, store = learner_of(*REPRODUCIBLE)
    core.handle(0.0, b"a", hello_of("a"), None)
    core.handle(0.0, b"a", gradient_of(1), b"gradient")
    core.handle(0.0, b"b", hello_of("b"), None)
    core.handle(0.0, b"b", gradient_of(1), b"gradient")
    core.tick(20.0)
    assert not store.steps
    core.handle(20.0, b"c", hello_of("c"), None)
    (refused,) = sent(core.handle(20.0, b"d", hello_of("d"), None), Refused)
    assert refused.code == "role" and "has had its 3 actors" in refused.reason
    assert sent(core.handle(20.0, b"e", hello_of("e", "evaluator"), None), Welcome), "it changes no weights"
    assert sent(core.handle(20.0, b"c2", hello_of("c"), None), Welcome), "c has connected anew"
    core.handle(20.0, b"c2", gradient_of(1), b"gradient")
    assert len(store.steps) == 1


@pytest.mark.parametrize("silent", [False, True])
def test_it_fails_when_an_actor_leaves(silent: bool) -> None:
    core, _ = learner_of(*REPRODUCIBLE)
    for name in NAMES:
        core.handle(0.0, name.encode(), hello_of(name), None)
        core.handle(0.0, name.encode(), Heartbeat(state="working"), None)
    core.handle(0.0, b"a", gradient_of(1), b"gradient")
    assert not finishes(core.tick(0.5))
    if silent:
        effects = [effect for now in range(1, 60) for effect in core.tick(float(now))]
    else:
        core.handle(1.0, b"b", Goodbye(reason="stopped by a signal"), None)
        effects = core.tick(1.0)
    finish = finishes(effects)[0]
    assert (finish.ending, finish.status.weights) == ("failed", "")
    assert "an actor has left" in finish.reason
