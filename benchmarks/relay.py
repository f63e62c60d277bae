"""When relays pay off: many simulated actors with and without a relay for each site (docs/scaling.md).

    python -m benchmarks relay [--networks dense,conv-a3c] [--actors 100,1000,10000] [--relays 10] [--mbit 1000]
                               [--site-mbit 1000,10000] [--accumulate 4] [--seconds 10] [--seeds 0,1,2]
                               [--rates 0.001] [--links 0,3]

The cores of learner, relays and actors are the real ones; time and network are simulated, with the processor times of
`python -m benchmarks size`.

Throughput: all actors say hello at once, and then always send the same gradient, one a second, over a link of --mbit at
the learner or of --site-mbit at their relay. "gradients/s" are rollouts in the learner's steps; "stale" are messages a
second that learner or relays found too old; "in" are gradients and sums a second that the learner reads. "s a version"
is the time from one version to the next at an actor; "lag" is in optimizer steps; "age" is the age of the weights when
their gradient, or the oldest gradient of a sum, is applied: in seconds, or in rollouts, which take a second. Fleets in
which a version would take more than a minute are left out.

Learning: CartPole-v1 to 300 as in `python -m benchmarks factors`, with "ours", Adam, and a learner that keeps up with
ten actors. Forty actors play, directly or behind four relays, within 400,000 frames. --links: Mbit/s at the learner and
at each relay, 0 for no limit; at 3 it takes 0.55 s to send one version to forty actors, in which each plays more than
three rollouts, and the link carries a third of the gradients.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import msgspec

from actor.effects import Prepare
from benchmarks import factors, size, tables
from benchmarks.simulations import Outcome, curve, median_at
from benchmarks.size import DELAY, STEPS, SteadyPlayer, gradient
from benchmarks.tables import Cell
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.actor_node import ActorNode, MakePlayer
from simulation.cluster import STARTS, Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import LOOPBACK, Costs, Host, Link, Relay, Simulation

SITE = Link(delay=2e-4)
"""Link between an actor and its relay."""
STEP_SECONDS = {"dense": 2e-5, "conv-a3c": 6e-4}
"""Learner's time for an optimizer step, by network."""
PACK_SECONDS = {"dense": 0.0, "conv-a3c": 5e-4}
"""Relay's time for a sum, by network."""
NETWORKS = {"dense": size.NETWORKS[0], "conv-a3c": size.NETWORKS[2]}
ENVIRONMENTS = {"dense": "FlappyBird-v0", "conv-a3c": "ALE/Pong-v5"}
"""Environments whose presets have these networks."""
COLUMNS = "joined, s", "gradients/s", "stale", "in", "busy", "relay busy", "Mbit/s out", "s a version", "lag", "age, s"
LONGEST_SECONDS = 60.0
"""Longest time between two versions; slower fleets are left out."""
PLAYING, PLAYING_RELAYS = 40, 4
"""Numbers of actors and of relays in the runs that learn."""
SCORE, FRAMES = 300.0, 400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="dense,conv-a3c")
    parser.add_argument("--actors", default="100,1000,10000")
    parser.add_argument("--relays", type=int, default=10)
    parser.add_argument("--mbit", type=float, default=1000.0, help="of the learner's link")
    parser.add_argument("--site-mbit", default="1000,10000", help="of each relay's")
    parser.add_argument("--accumulate", type=int, default=4, help="most rollouts in an actor's gradient")
    parser.add_argument("--seconds", type=float, default=10.0, help="virtual ones, after all have joined")
    parser.add_argument("--seeds", default="0,1,2", help="of those that learn; empty: none does")
    parser.add_argument("--rates", default="0.001", help="learning rates of these")
    parser.add_argument("--links", default="0,3", help="of these, in Mbit/s")
    given = parser.parse_args()
    names = [name for name in given.networks.split(",") if name]
    sites = [float(mbit) for mbit in given.site_mbit.split(",")]
    if unknown := set(names) - set(NETWORKS):
        parser.error(f"--networks: there are {', '.join(NETWORKS)}, not {', '.join(sorted(unknown))}")
    if min(given.relays, given.mbit, *sites) <= 0:
        parser.error("--relays, --mbit and --site-mbit must be above 0")
    tables.machine()
    for network in (NETWORKS[name] for name in names):
        for actors in map(int, given.actors.split(",")):
            rows = [
                (one.name, *found)
                for one in fleets(given.relays, sites)
                if (found := steady(network, actors, given.mbit, given.seconds, one, given.accumulate))
            ]
            tables.show(f"{network.name}, {given.mbit:g} Mbit/s, {actors:,} actors", ("", *COLUMNS), rows)
    seeds = [int(seed) for seed in given.seeds.split(",") if seed]
    links = [float(mbit) for mbit in given.links.split(",")]
    for rate, mbit in itertools.product(map(float, given.rates.split(",")), links) if seeds else ():
        lines = [
            (one.name, *learned([learning(one, rate, seed, mbit, given.accumulate) for seed in seeds]))
            for one in fleets(PLAYING_RELAYS, [mbit])
        ]
        title = f"CartPole-v1 to {SCORE:g}, Adam at {rate:g}, {mbit:g} Mbit/s"
        tables.show(title, ("", "k frames", "s", "lag"), lines)


@dataclass(frozen=True)
class Sites:
    """The relays through which a fleet sends."""

    relays: int = 0
    """Number of relays; 0: actors send directly to the learner."""
    mbit: float = 0.0
    """Bandwidth of each relay's network; 0: without a limit."""

    @property
    def name(self) -> str:
        if not self.relays:
            return "directly"
        return f"{self.relays} relays" + (f" of {self.mbit:g} Mbit/s" if self.mbit else "")


def fleets(relays: int, site_mbit: Sequence[float]) -> list[Sites]:
    return [Sites(), *(Sites(relays, mbit) for mbit in site_mbit)]


def learned(outcomes: Sequence[Outcome]) -> tuple[Cell, ...]:
    """Return medians over the seeds at the first time that the score is reached."""
    frames, seconds, lag = (median_at(outcomes, SCORE, figure) for figure in ("frames", "seconds", "lag"))
    return None if frames is None else frames / 1e3, seconds, lag


class Fleet:
    """A cluster of actors started by hand, which connect to the learner, or are spread over the relays."""

    def __init__(
        self,
        settings: Settings,
        world: Simulation,
        sites: Sites,
        link: Link = LOOPBACK,
        local: bool = False,
        make_player: MakePlayer | None = None,
    ) -> None:
        """link: between the learner and each relay, or each actor without one. local: all are on the learner's host."""
        self.recorder = MemoryRecorder()
        self.cluster = Cluster(settings, world, self.recorder, make_player=make_player)
        relay = Relay(mbit=sites.mbit, link=SITE)
        self._hosts = [Host(name=f"site-{n}", local=local, link=link, relay=relay) for n in range(sites.relays)]
        self._direct = Host(local=local, link=link)
        for host in self._hosts:
            self.cluster.start_relay(host)

    def start(self, number: int, speed: float = 1.0) -> None:
        """Start the actor of this number, on a host of this speed."""
        name = f"actor-{number}"
        host = (
            self._hosts[number % len(self._hosts)] if self._hosts else msgspec.structs.replace(self._direct, name=name)
        )
        self.cluster.start_actor(name, msgspec.structs.replace(host, speed=speed))

    def totals(self) -> dict[str, float]:
        """Return totals so far: rollouts in steps, messages found stale, messages that the learner read, and more."""
        status, relays = self.cluster.status(), self.cluster.relays.values()
        return {
            "rollouts": status.frames // STEPS,
            "stale": status.stale + sum(one.stale for one in status.relays),
            "read": status.gradients + status.stale,
            "steps": status.version,
            "weight_bytes": status.weight_bytes,
            "passed_on": sum(one.published for one in relays),
            "worked": self.cluster.learner.core.run.stats.busy.worked,
            "relays_worked": sum(one.worked for one in relays),
        }


# -- throughput --------------------------------------------------------------------------------------------------------


def steady(
    network: size.Network, actors: int, mbit: float, seconds: float, sites: Sites, accumulate: int
) -> list[Cell]:
    """Return a row of COLUMNS over `seconds`, or over two versions if these take longer; empty: they take too long."""
    version = network.weights_bytes * 8e-6 / size.EGRESS_SHARE
    relays = sites.relays
    longest = max(version * (relays or actors) / mbit, version * actors / relays / sites.mbit if relays else 0.0)
    if longest > LONGEST_SECONDS:
        return []
    seconds = max(seconds, 2 * longest)
    step = STEP_SECONDS[network.name]
    settings = replace_at(settings_of(network, mbit), {"exchange.accumulate": accumulate})
    body = gradient(network.parameters, network.codec)

    def player(effect: Prepare, node: ActorNode) -> SteadyPlayer:
        return SteadyPlayer(body, effect.welcome.version, node)

    message = network.microseconds / 1e6 - step / 8  # measured with steps of eight gradients
    packing = PACK_SECONDS[network.name]
    costs = Costs(message=message, message_mib=0.0, optimizer_step=step, relay_sum=packing, actor_prepare=0.3)
    fleet = Fleet(settings, Simulation(costs=costs, learner_mbit=mbit), sites, Link(delay=DELAY), make_player=player)
    for number in range(actors):
        fleet.start(number)
    cluster = fleet.cluster
    waiting = list(cluster.actors.values())
    while waiting:
        cluster.run(cluster.queue.now + 0.1)
        waiting = [one for one in waiting if one.core.player is None or one.core.state != "working"]
    joined = cluster.queue.now
    cluster.run(joined + seconds / 2)
    before = fleet.totals()
    cluster.run(joined + 1.5 * seconds)
    after = fleet.totals()
    rate = {name: (after[name] - before[name]) / seconds for name in after}
    lag = cluster.learner.core.run.stats.figures(cluster.queue.now)["lag_mean"]
    copies = rate["weight_bytes"] / network.weights_bytes
    versions = rate["passed_on"] / relays if relays else copies / actors
    return [
        joined,
        rate["rollouts"],
        rate["stale"],
        rate["read"],
        rate["worked"],
        rate["relays_worked"] / relays if relays else None,
        8e-6 * rate["weight_bytes"],
        1 / versions if versions else None,
        lag,
        lag / rate["steps"] if rate["steps"] else None,
    ]


def settings_of(network: size.Network, mbit: float) -> Settings:
    codec, _, coder = network.codec.partition("+")
    changes = {
        "exchange.codec": codec,
        "exchange.entropy_coder": coder or "none",
        "environment.num_envs": 8,
        "algorithm.rollout_length": STEPS // 8,
    }
    return replace_at(size.settings_of(mbit, ENVIRONMENTS[network.name]), changes)


# -- learning ----------------------------------------------------------------------------------------------------------


def learning(sites: Sites, rate: float, seed: int, mbit: float, accumulate: int) -> Outcome:
    """Train CartPole-v1 with forty actors; mbit: bandwidth of the learner's link, 0: without a limit."""
    world = factors.world(10, 0.0)
    case = factors.case("CartPole-v1", "adam", "ours", PLAYING, rate, seed, world)
    changes: dict[str, Any] = {"scaling.minimum": 0, "limits.frames": FRAMES, "exchange.accumulate": accumulate}
    if mbit:
        changes |= {"exchange.codec": "none", "exchange.egress_mbit": size.EGRESS_SHARE * mbit}
    simulation = Simulation(costs=world.costs, learner_mbit=mbit)
    fleet = Fleet(replace_at(case.settings, changes), simulation, sites, local=not mbit)
    starts = Random(seed)
    for number in range(PLAYING):
        speed = factors.HOSTS[number * len(factors.HOSTS) // PLAYING].speed
        fleet.cluster.queue.at(starts.uniform(*STARTS) / speed, partial(fleet.start, number, speed))
    fleet.cluster.run()
    return Outcome(case.name, seed, "", curve(fleet.recorder.rows))


if __name__ == "__main__":
    main()
