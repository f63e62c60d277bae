"""exchange.kind = "auto" from the welcome to the choice: both cores on a network that loses and delays."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any

import msgpack
import pytest

from actor.players.gradients import Work
from actor.timing import ROLLOUTS
from common.errors import WireError
from common.settings.sections import Settings
from common.wire.codecs.registry import make as make_codec
from common.wire.frames import unpack
from common.wire.messages import Refused, Trial, Welcome
from learner.choice import Costs
from learner.core import LearnerCore
from learner.effects import Keep
from learner.trials import PATIENCE_SECONDS, Trials
from tests.helpers.link import ActorShell, Link
from tests.helpers.run import gradient_of, hello_of, learner_of, logged, sent, settings_of, welcome_of
from tests.learner.test_choice import SMALL
from tests.test_trajectories import model_of

CHEAP = Costs(add=1.0, learn=1e-3, step=0.0)
DEAR = Costs(add=1e-3, learn=1.0, step=0.0)


class Store:
    """What a store is asked besides gradients."""

    def __init__(self, costs: Costs) -> None:
        self.changed = 0
        self._costs = costs

    def costs(self) -> Costs:
        return self._costs

    def change_over(self) -> None:
        self.changed += 1


def choose_codec(offered: Collection[str], loopback: bool) -> str:
    assert "none+lz4" in offered
    return "none+lz4"


def trials_of(store: Store, settings: Settings) -> Trials:
    return Trials(store, "gpu-box", choose_codec, settings)


def open_link(costs: Costs, actors: int = 2) -> tuple[Link, Store]:
    """A run whose actors have joined and are asked to time their rollouts."""
    link, store = Link("exchange.kind=gradients"), Store(costs)
    learner, link.store = learner_of(
        "exchange.kind=gradients", now=link.now, trials=functools.partial(trials_of, store)
    )
    link.learner, link.stores, link.actors = learner, [link.store], []
    for _ in range(actors):
        link.join()
    link.settle()
    return link, store


def tells(link: Link, actor: ActorShell) -> None:
    """An actor has timed enough."""
    effects = actor.core.tried(SMALL)
    assert effects, "it knows the way to the learner"
    actor.do(effects)


def kind_of(actor: ActorShell) -> Any:
    assert actor.core.welcome is not None
    return actor.core.welcome.settings["exchange"]["kind"]


def test_it_learns_from_gradients_while_it_measures_and_goes_over_without_counting_anything_twice() -> None:
    link, store = open_link(CHEAP)
    for actor in link.actors:
        assert actor.core.welcome is not None and actor.core.welcome.trial == "none+lz4"
        link.play(actor)
    link.settle()
    assert sorted(link.applied()) == [0, 1], "gradients as ever"
    late, other = link.actors
    tells(link, late)
    link.settle()
    assert store.changed == 0, "the other has not told"
    tells(link, other)
    link.play(late)  # under way while it is decided
    link.deliver_up(other)
    assert store.changed == 1
    assert link.learner.plan.settings.exchange.kind == "trajectories"
    link.play(late)  # added up
    link.settle()
    assert [actor.prepared for actor in link.actors] == [2, 1], "the other learns of it with its next gradient"
    link.play(other)
    link.settle()
    for actor in link.actors:
        assert kind_of(actor) == "trajectories"
        assert actor.core.welcome is not None and actor.core.welcome.trial == ""
        assert actor.core.state == "working" and not actor.bodies
        link.play(actor)
    link.settle()
    given_up = late.given_up | other.given_up
    assert given_up == {2, 3, 4}
    assert sorted(link.applied()) == [0, 1, 5, 6]
    counters = link.learner.ledger.counters
    assert (counters.gradients, counters.frames) == (4, 80)
    assert (counters.refused, counters.stale, counters.duplicates) == (0, 0, 0)
    assert counters.version == link.store.version


def test_what_waits_at_the_change_is_stepped_with_before() -> None:
    link, store = open_link(CHEAP, actors=1)
    (actor,) = link.actors
    link.play(actor)
    link.settle()
    link.play(actor)
    tells(link, actor)
    link.deliver_up(actor)
    link.deliver_up(actor)
    assert store.changed == 1
    assert not link.store.added and link.applied() == [0, 1]
    link.settle()
    assert actor.given_up == set()


def test_a_refusal_that_is_lost_is_repeated_with_the_next_gradient() -> None:
    link, _ = open_link(CHEAP, actors=1)
    (actor,) = link.actors
    link.play(actor)
    link.settle()
    tells(link, actor)
    link.settle()
    link.play(actor)
    link.deliver_up(actor)
    actor.wires.cut()
    link.settle(11.0)  # nobody answered: it goes again
    assert kind_of(actor) == "trajectories"
    assert link.learner.ledger.counters.duplicates == 0


def test_where_gradients_are_chosen_nobody_notices() -> None:
    link, store = open_link(DEAR)
    for actor in link.actors:
        link.play(actor)
    link.settle()
    for actor in link.actors:
        tells(link, actor)
        link.play(actor)
    link.settle()
    status = link.learner.ledger.status(link.now, link.learner.plan, link.learner.peers)
    assert status.exchange == "gradients"
    assert "0.8 rollouts/s (by the learner) as trajectories" in status.exchange_why
    assert "round trip 100 ms, 2 actors" in status.exchange_why, "the actors took the time themselves"
    assert store.changed == 0
    assert [actor.prepared for actor in link.actors] == [1, 1]
    assert sorted(link.applied()) == [0, 1, 2, 3]
    late = link.join()
    link.settle()
    assert late.core.welcome is not None and late.core.welcome.trial == ""


def joined(costs: Costs) -> tuple[LearnerCore, Store]:
    store = Store(costs)
    core, _ = learner_of("exchange.kind=gradients", trials=functools.partial(trials_of, store))
    for name in ("a", "b"):
        (welcome,) = sent(core.handle(0.0, name.encode(), hello_of(name), None), Welcome)
        assert welcome.trial == "none+lz4"
    return core, store


def test_the_choice_is_told_and_kept_and_made_once() -> None:
    core, store = joined(CHEAP)
    assert not logged(core.handle(1.0, b"a", SMALL, None))
    assert core.deadline <= 1.0 + PATIENCE_SECONDS
    effects = core.tick(1.0 + PATIENCE_SECONDS)
    (line,) = [line for line in logged(effects) if "exchange" in line]
    assert line.startswith("info: exchange of trajectories: ")
    (kept,) = [effect.settings for effect in effects if isinstance(effect, Keep)]
    assert kept.exchange.kind == "trajectories"
    assert not core.handle(7.0, b"b", SMALL, None)
    assert not [effect for effect in core.tick(30.0) if isinstance(effect, Keep)]
    assert store.changed == 1
    (refused,) = sent(core.handle(8.0, b"b", gradient_of(1), b"[0]"), Refused)
    assert refused.code == "unknown" and "trajectories now" in refused.reason


def test_without_figures_nothing_is_decided() -> None:
    core, store = joined(CHEAP)
    for now in range(1, 25):
        core.handle(float(now), b"a", gradient_of(now, now - 1), b"[0]")
        core.flush(float(now))
        assert not [effect for effect in core.tick(float(now)) if isinstance(effect, Keep)]
    assert store.changed == 0
    assert core.ledger.counters.gradients == 24


def test_a_launcher_and_a_stranger_have_nothing_to_tell() -> None:
    core, store = joined(CHEAP)
    core.handle(0.0, b"l", hello_of("l", role="launcher"), None)
    (refused,) = sent(core.handle(1.0, b"l", SMALL, None), Refused)
    assert refused.code == "role"
    (refused,) = sent(core.handle(1.0, b"x", SMALL, None), Refused)
    assert refused.code == "unknown"
    core.handle(1.0, b"a", SMALL, None)
    assert store.changed == 0


@pytest.mark.parametrize("field", [name for name in Trial.__struct_fields__ if not name.endswith("bytes")])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e7, "1", None])
def test_seconds_that_cannot_be_are_no_message(field: str, value: object) -> None:
    fields = {name: getattr(SMALL, name) for name in Trial.__struct_fields__}
    with pytest.raises(WireError, match=field):
        unpack(msgpack.packb({"type": "trial", **fields, field: value}))


@pytest.mark.parametrize("value", [-1, 2**40 + 1, 1.5, float("nan")])
@pytest.mark.parametrize("field", ["gradient_bytes", "trajectory_bytes"])
def test_sizes_that_cannot_be_are_no_message(field: str, value: object) -> None:
    fields = {name: getattr(SMALL, name) for name in Trial.__struct_fields__}
    with pytest.raises(WireError, match=field):
        unpack(msgpack.packb({"type": "trial", **fields, field: value}))


def test_an_actor_that_is_asked_sends_the_same_gradients_as_one_that_is_not() -> None:
    small = settings_of("network.hidden=[8]", "environment.num_envs=3", "algorithm.rollout_length=6")
    model, packing = model_of(small)
    body = make_codec("none", model.flat.size).encode(model.flat.vector)
    asked, plain = (
        Work(welcome_of(model=model.flat.hash, seed=5, trial=trial), small, body) for trial in ("none+lz4", "")
    )
    try:
        assert plain.timing is None and asked.timing is not None
        for _ in range(ROLLOUTS + 1):
            assert asked.timing.trial() is None
            one, other = asked.advance(math.inf), plain.advance(math.inf)
            assert one is not None and other is not None
            assert one.statistics == other.statistics
            assert asked.pack(1) == plain.pack(1)
        trial = asked.timing.trial()
    finally:
        asked.close()
        plain.close()
    assert trial is not None
    assert trial.gradient_bytes == 4 * model.flat.size
    assert 0 < trial.trajectory_bytes <= packing.max_bytes(1)
    assert trial.play > 0.0 and trial.gradient > 0.0
