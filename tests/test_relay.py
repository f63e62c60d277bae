"""Fleets behind relays, as `python -m benchmarks relay` simulates them."""

from __future__ import annotations

import pytest

from actor.effects import Prepare
from benchmarks import relay, size
from benchmarks.relay import Fleet, Sites, fleets, settings_of
from benchmarks.size import STEPS, SteadyPlayer
from common.settings.toml import replace_at
from simulation.actor_node import ActorNode
from simulation.settings import Simulation

DENSE = size.NETWORKS[0]


def steady_fleet(actors: int, sites: Sites, seconds: float = 3.0) -> Fleet:
    """Of actors that always send the same gradient, after so long."""
    gradient = size.gradient(DENSE.parameters)

    def player(effect: Prepare, node: ActorNode) -> SteadyPlayer:
        return SteadyPlayer(gradient, effect.welcome.version, node)

    settings = replace_at(settings_of(DENSE, 1000.0), {"exchange.accumulate": 4})
    fleet = Fleet(settings, Simulation(), sites, make_player=player)
    for number in range(actors):
        fleet.start(number)
    fleet.cluster.run(seconds)
    return fleet


def test_each_rollout_is_in_one_sum_and_each_sum_in_one_step() -> None:
    fleet = steady_fleet(12, Sites(relays=2), seconds=6.0)
    status = fleet.cluster.status()
    actors, uplinks = fleet.cluster.actors.values(), [one.core._uplink for one in fleet.cluster.relays.values()]
    sent = sum(actor.core._sequence for actor in actors)  # a rollout each: they have credit when it is played
    not_answered = sum(len(actor.core.outbox) for actor in actors)
    waiting = sum(uplink.player.pending for uplink in uplinks if uplink.player)
    under_way = sum(one.send.message.count for uplink in uplinks for one in uplink.outbox._kept.values())
    assert (len(status.relays), status.actors_now) == (2, 12)
    assert (status.refused, status.stale, status.duplicates) == (0, 0, 0)
    assert 40 < sent - not_answered - waiting - under_way <= status.frames // STEPS <= sent


def test_every_actor_behind_a_relay_has_a_seed_of_its_own() -> None:
    fleet = steady_fleet(12, Sites(relays=3), seconds=1.0)
    welcomes = [actor.core.membership.welcome for actor in fleet.cluster.actors.values()]
    assert len({welcome.seed for welcome in welcomes if welcome is not None}) == 12


def test_once_all_have_been_counted_nothing_of_a_hundred_actors_is_too_old() -> None:
    fleet = steady_fleet(100, Sites(relays=10))
    before = fleet.totals()
    fleet.cluster.run(6.0)
    after = fleet.totals()
    assert after["stale"] == before["stale"] < 20
    assert after["rollouts"] > before["rollouts"] + 250


def test_a_relay_sends_weights_no_faster_than_its_network_carries_them() -> None:
    fast, slow = (steady_fleet(20, Sites(1, mbit)).totals()["passed_on"] for mbit in (0.0, 100.0))
    carried = 0.8 * 100.0 / (20 * 8e-6 * DENSE.weights_bytes)
    assert 0 < slow <= 1 + 3.0 * carried < fast


def test_what_waits_too_long_for_weights_is_not_simulated() -> None:
    conv = size.NETWORKS[2]
    assert relay.steady(conv, 10_000, 1000.0, 1.0, Sites(), accumulate=4) == []


def test_forty_that_play_behind_relays_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FRAMES", 4_000)
    ends = [relay.learning(one, 1e-3, seed=0, mbit=0.0, accumulate=4).end for one in fleets(4, [0.0])]
    assert [end.actors for end in ends] == [40, 40]
    assert all(end.frames >= 4_000 and end.episodes > 40 for end in ends)
