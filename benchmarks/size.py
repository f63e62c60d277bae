"""Limits of one learner: computed from measured costs, and simulated with a thousand actors and more.

    python -m benchmarks size [--actors 100,1000,10000] [--mbit 1000] [--seconds 10] [--sites 10]

All actors are on other hosts and send one gradient a second. Computed: the number of actors that each bound of a
learner allows, with its processor time per gradient from `python -m benchmarks swarm --actors 40` (and `--network conv
--codec int8+lz4`), as in docs/performance.md; "weights in a second" is the number of actors that can get new weights
every second over 80 % of the link. With one relay for each of --sites, the learner sends weights to the relays only
(`python -m benchmarks relay`).

Simulated: the learner's core with the dense network, a link of --mbit at the learner, and actors that all say hello at
once and then always send the same gradient. "joined" is when the last of them plays; gradients are counted in rollouts,
of which an actor without credit adds up several in one message; "age" is the age of the weights when their gradient is
applied.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from actor.effects import Prepare
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from benchmarks import tables
from benchmarks.tables import Cell
from common.host.process import MOST_DESCRIPTORS
from common.run import presets
from common.settings.sections import Settings
from common.settings.toml import replace_at
from common.wire.codecs.registry import make
from common.wire.frames import Buffer
from common.wire.messages import Gradient
from simulation.actor_node import ActorNode
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Host, Link, Simulation

EGRESS_SHARE = 0.8
"""Share of the link for weights; exchange.egress_mbit is by default this share of a gigabit."""
STEPS = 256
"""Steps of a rollout."""
NORM = 0.1
"""Norm of a gradient."""
DELAY = 0.005
"""Latency in seconds between the learner and each actor."""


@dataclass(frozen=True)
class Network:
    """A network, and what a gradient and weights cost the learner."""

    name: str
    parameters: int
    codec: str
    microseconds: float
    """Learner's processor time per gradient, all threads."""
    weights_bytes: int

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient of noise, which entropy coders cannot shrink: an upper bound."""
        noise = np.random.default_rng(0).standard_normal(self.parameters, np.float32)
        return len(make(self.codec, self.parameters).encode(noise))


NETWORKS = (
    Network("dense", 18_563, "none", 91.0, 4 * 18_563),
    Network("dense", 18_563, "int8", 91.0, 18_563),
    Network("conv-a3c", 677_943, "int8+lz4", 681.0, 2 * 677_943),
    Network("conv-a3c", 677_943, "int8+lz4", 681.0, 677_943),
)
"""The second entry of each network is with exchange.weights = "delta": a byte for each weight."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", default="100,1000,10000")
    parser.add_argument("--mbit", type=float, default=1000.0, help="of the learner's link")
    parser.add_argument("--seconds", type=float, default=10.0, help="virtual ones, after all have joined")
    parser.add_argument("--sites", type=int, default=10, help="hosts with a relay each")
    arguments = parser.parse_args()
    counts = [int(one) for one in arguments.actors.split(",")]
    tables.machine()
    bounds = ("weights of", "processor", "gradients in", "weights in a second", "descriptors")
    title = f"Actors that one learner takes, a gradient a second each, {arguments.mbit:g} Mbit/s"
    tables.show(title, ("", *bounds), [most(one, arguments.mbit) for one in NETWORKS])
    figures = ("actors", "a core", "Mbit/s in", "Mbit a version", "s a version", "with relays")
    rows = [needed(one, count, arguments.mbit, arguments.sites) for one in NETWORKS for count in counts]
    tables.show(f"What so many actors take, {arguments.sites} sites", ("", *figures), rows)
    columns = ("joined, s", "gradients/s", "messages/s", "busy", "steps/s", "s a version", "lag", "age, s")
    shown = [(str(count), *simulated(count, arguments.mbit, arguments.seconds)) for count in counts]
    tables.show("Simulated, dense", ("actors", *columns), shown)


def most(network: Network, mbit: float) -> tuple[Cell, ...]:
    """Return the number of actors that each bound alone allows."""
    second = 1e6 * mbit / 8
    return (
        f"{network.name}, {network.codec}",
        f"{network.weights_bytes / 1e3:,.0f} kB",
        int(1e6 / network.microseconds),
        int(second / network.gradient_bytes),
        int(EGRESS_SHARE * second / network.weights_bytes),
        MOST_DESCRIPTORS // 2,
    )


def needed(network: Network, actors: int, mbit: float, sites: int) -> tuple[Cell, ...]:
    """Return cores, Mbit/s in, Mbit for one version to all, and its seconds, to all actors and to relays only."""
    version = 8e-6 * network.weights_bytes
    return (
        f"{network.name}, {network.weights_bytes / 1e3:,.0f} kB",
        actors,
        actors * network.microseconds / 1e6,
        8e-6 * actors * network.gradient_bytes,
        actors * version,
        actors * version / (EGRESS_SHARE * mbit),
        min(sites, actors) * version / (EGRESS_SHARE * mbit),
    )


# -- simulated ---------------------------------------------------------------------------------------------------------


class SteadyPlayer(Player):
    """Plays for `seconds`, then sends always the same gradient, as if computed with the newest weights that it has."""

    contribution = Gradient

    def __init__(self, body: bytes, version: int, node: ActorNode, seconds: float = 1.0) -> None:
        self._body = body
        self._seconds = seconds
        self._version = version
        self._node = node
        self._summary = RolloutSummary()
        self._first = seconds * Random(node.name).random()

    @property
    def pending(self) -> int:
        return self._summary.count

    def advance(self, until: float) -> bool:  # noqa: ARG002  it plays without a pause
        self._node.clock.now += self._first or self._seconds
        self._first = 0.0
        self._summary.add(RolloutSummary(self._version, steps=STEPS, emulator_frames=STEPS, count=1))
        return True

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:  # noqa: ARG002  weights are not used
        self._version = version
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:  # noqa: ARG002  nothing is kept
        summary, self._summary = self._summary, RolloutSummary()
        return summary, self._body

    def answered(self, sequence: int, *, dropped: bool) -> None:
        pass

    def close(self) -> None:
        pass


def gradient(parameters: int, codec: str = "none") -> bytes:
    """Return packed noise of norm NORM."""
    noise = np.random.default_rng(0).standard_normal(parameters, np.float32)
    return make(codec, parameters).encode(noise * np.float32(NORM / np.linalg.norm(noise)))


def settings_of(mbit: float, environment: str = "FlappyBird-v0") -> Settings:
    changes = {
        "exchange.kind": "gradients",
        "exchange.codec": "none",
        "exchange.entropy_coder": "none",
        "exchange.egress_mbit": EGRESS_SHARE * mbit,
        "scaling.policy": "fixed",
        "scaling.minimum": 0,
        "limits.seconds": 0.0,
        "limits.frames": 1_000_000_000,
    }
    return replace_at(presets.for_environment(environment, None), changes)


def simulated(actors: int, mbit: float, seconds: float) -> Iterator[Cell]:
    """Yield the values of the columns, measured over the last `seconds`."""
    dense = NETWORKS[0]
    body = gradient(dense.parameters)
    costs = Costs(message=dense.microseconds / 1e6, message_mib=0.0, optimizer_step=0.0, actor_prepare=0.3)

    def player(effect: Prepare, node: ActorNode) -> SteadyPlayer:
        return SteadyPlayer(body, effect.welcome.version, node)

    world = Simulation(costs=costs, learner_mbit=mbit)
    cluster = Cluster(settings_of(mbit), world, MemoryRecorder(), make_player=player)
    for number in range(actors):
        cluster.start_actor(f"actor-{number}", Host(name=f"actor-{number}", local=False, link=Link(delay=DELAY)))
    waiting = list(cluster.actors.values())
    while waiting:
        cluster.run(cluster.queue.now + 0.1)
        waiting = [one for one in waiting if one.core.player is None]
    joined = cluster.queue.now
    cluster.run(joined + seconds / 2)
    before, busy = cluster.status(), cluster.learner.core.run.stats.busy.worked
    cluster.run(joined + 1.5 * seconds)
    after, worked = cluster.status(), cluster.learner.core.run.stats.busy.worked - busy
    steps = (after.version - before.version) / seconds
    lag = cluster.learner.core.run.stats.figures(cluster.queue.now)["lag_mean"]
    sent = (after.weight_bytes - before.weight_bytes) / (actors * dense.weights_bytes)
    yield joined
    yield (after.frames - before.frames) / STEPS / seconds
    yield (after.gradients - before.gradients) / seconds
    yield worked / seconds
    yield steps
    yield seconds / sent if sent else None
    yield lag
    yield lag / steps if steps else None


if __name__ == "__main__":
    main()
