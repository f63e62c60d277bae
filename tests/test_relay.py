"""A relay as it is designed, and what is simulated of it: `python -m benchmarks relay`."""

from __future__ import annotations

import numpy as np
import pytest

from actor.effects import Prepare
from benchmarks import relay, size
from benchmarks.relay import Fleet, fleets, settings_of, told
from benchmarks.relay_node import Form, SumPlayer
from benchmarks.size import STEPS, SteadyPlayer
from common.errors import CodecError
from common.wire.codecs.registry import make
from common.wire.messages import Gradient
from learner.parameters.gradient_bound import GradientBound
from simulation.actor_node import ActorNode
from simulation.settings import Host, Simulation

DENSE = size.NETWORKS[0]


def header(version: int, count: int = 1) -> Gradient:
    return Gradient(
        run="run",
        epoch=1,
        sequence=1,
        version=version,
        model="model",
        codec="none",
        steps=10 * count,
        emulator_frames=20 * count,
        count=count,
        statistics={"entropy": float(version)},
    )


def body(*numbers: float) -> bytes:
    return make("none", len(numbers)).encode(np.array(numbers, np.float32))


def test_what_a_relay_sends_is_the_sum_of_what_it_took() -> None:
    player = SumPlayer("none", 2, GradientBound(max_grad_norm=1.0), lambda *_: None)
    player.add(header(version=7), body(0.5, 0.0))
    player.add(header(version=5, count=3), body(0.25, 2.0))
    assert player.pending == 4
    summary, packed = player.pack(1)
    out = np.zeros(2, np.float32)
    make("none", 2).decode(packed, out)
    assert out.tolist() == [0.75, 2.0]
    assert (summary.version, summary.count, summary.steps, summary.emulator_frames) == (5, 4, 40, 80)
    assert summary.statistics == {"entropy": 5.5}
    assert player.pending == 0 and player.pack(2)[1] == body(0.0, 0.0)


def test_a_gradient_that_is_too_long_is_in_no_sum() -> None:
    player = SumPlayer("none", 2, GradientBound(max_grad_norm=1.0), lambda *_: None)
    with pytest.raises(CodecError, match="norm"):
        player.add(header(version=7), body(3.0, 0.0))
    assert player.pending == 0


def steady_fleet(actors: int, relays: int, form: Form, seconds: float = 3.0, mbit: float = 1000.0) -> Fleet:
    """Of actors that always send the same gradient, after so long."""
    gradient = size.gradient(DENSE.parameters)

    def player(effect: Prepare, node: ActorNode) -> SteadyPlayer:
        return SteadyPlayer(gradient, effect.welcome.version, node)

    settings = told(settings_of(DENSE, mbit), relays, form)
    fleet = Fleet(settings, Simulation(), relays, form, player)
    for number in range(actors):
        fleet.start(number, Host(name=f"actor-{number}", local=False))
    fleet.cluster.run(seconds)
    return fleet


def test_each_rollout_is_in_one_sum_and_each_sum_in_one_step() -> None:
    fleet = steady_fleet(12, 2, Form(accumulate=4, relays=2, actors=12), seconds=6.0)
    status = fleet.cluster.status()
    actors, uplinks = fleet.cluster.actors.values(), [one.uplink for one in fleet.relays]
    sent = sum(actor.core._sequence for actor in actors)  # a rollout each: they have credit when it is played
    not_answered = sum(len(actor.core.outbox) for actor in actors)
    waiting = sum(uplink.player.pending for uplink in uplinks if uplink.player)
    under_way = sum(one.send.message.count for uplink in uplinks for one in uplink.core.outbox._kept.values())
    assert len(status.actors) == 2
    assert (status.refused, status.stale, status.duplicates) == (0, 0, 0)
    assert 40 < sent - not_answered - waiting - under_way <= status.frames // STEPS <= sent


def test_every_actor_behind_a_relay_has_a_seed_of_its_own() -> None:
    fleet = steady_fleet(12, 3, Form(accumulate=4, relays=3, actors=12), seconds=1.0)
    welcomes = [actor.core.membership.welcome for actor in fleet.cluster.actors.values()]
    assert len({welcome.seed for welcome in welcomes if welcome is not None}) == 12


def test_a_learner_that_takes_relays_for_actors_refuses_what_is_not_too_old() -> None:
    first, knows = (steady_fleet(100, 10, form).totals() for _, relays, form in fleets(100, 10, [0.0]) if relays)
    assert knows["stale"] == 0 < first["stale"]
    assert first["rollouts"] < knows["rollouts"]


def test_a_relay_sends_weights_no_faster_than_its_network_carries_them() -> None:
    fast, slow = (
        steady_fleet(20, 1, Form(accumulate=4, actors=20, site_mbit=mbit)).totals()["passed_on"]
        for mbit in (0.0, 100.0)
    )
    carried = 0.8 * 100.0 / (20 * 8e-6 * DENSE.weights_bytes)
    assert 0 < slow <= 1 + 3.0 * carried < fast


def test_what_waits_too_long_for_weights_is_not_simulated() -> None:
    conv = size.NETWORKS[2]
    assert relay.steady(conv, 10_000, 1000.0, 1.0, 0, Form(accumulate=4)) == []


def test_forty_that_play_behind_relays_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FRAMES", 4_000)
    ends = [relay.learning(relays, form, 1e-3, seed=0, mbit=0.0).end for _, relays, form in fleets(40, 4, [0.0])]
    assert [end.actors for end in ends] == [40, 4, 4]
    assert all(end.frames >= 4_000 and end.episodes > 40 for end in ends)
