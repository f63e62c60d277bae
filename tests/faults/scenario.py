"""A simulation of random faults: the same seed gives the same simulation, event by event.

A time of faults is followed by a calm, in which everything must recover.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from actor.core import ActorCore
from common.settings.sections import Settings
from common.settings.toml import override
from learner.peer import Peer
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Host, Incident, Link, Simulation
from tests.faults.invariants import Invariants
from tests.faults.ledger import Ledger
from tests.faults.sums import MAX_NORM, Violation

TROUBLE_SECONDS = 40.0
CALM_SECONDS = 100.0
"""Longest time until everything is well again: pulls and launchers try again after at most half a minute."""
WELL_SECONDS = 10.0
"""Period in which, once all is well, every actor contributes."""
GREEDY, HASTY, BAD = "greedy", "hasty", "bad"
"""Actors started by hand: one sends without credit, one plays impossibly fast, one sends unusable gradients."""
SLOW = 5.0
"""Factor on the time of a slow actor's rollout."""
Plan = list[tuple[float, int]]


class GreedyCore(ActorCore):
    """Sends as if there were no credit."""

    @property
    def _has_credit(self) -> bool:
        return True


class Scenario:
    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.settings = settings_of(rng)
        self.world = world_of(rng)
        names = [host.name for host in self.world.hosts]
        slow = {f"{rng.choice(names)}-{rng.randint(0, 1)}": SLOW, HASTY: 0.1} if rng.random() < 0.4 else {HASTY: 0.1}
        self.ledger = Ledger(self.settings, wanted_of(rng, self.settings), slow)
        self.cluster = Cluster(
            self.settings,
            self.world,
            MemoryRecorder(),
            make_core=self.ledger.make_core,
            make_player=self.ledger.make_player,
        )
        self.guests = {name for name in (GREEDY, HASTY, BAD) if rng.random() < 0.15}
        for name in sorted(self.guests):
            self.cluster.queue.at(rng.uniform(1, 20), partial(self._join, name))
        if rng.random() < 0.1:
            self.ledger.bad.add(f"{names[0]}-0")
        self.ledger.bad.add(BAD)
        if rng.random() < 0.2:
            self.cluster.queue.at(rng.uniform(3, 30), partial(self._revoke, names[0], rng.uniform(0, 10)))
        self.invariants = Invariants(self.cluster, self.ledger, {GREEDY})

    def run(self) -> None:
        """Run the simulation; raises Violation, or the error of a core."""
        self.ledger.rollout_seconds = 0.7
        self._run(TROUBLE_SECONDS)
        self._calm()
        now, why = TROUBLE_SECONDS + WELL_SECONDS, "unknown"
        self._run(now)
        while why:
            if now >= TROUBLE_SECONDS + CALM_SECONDS:
                raise Violation(why)
            before = {name: self._gradients(name) for name in self._honest()}
            now += WELL_SECONDS
            self._run(now)
            why = self._unwell(before)

    def _run(self, until: float) -> None:
        queue, check = self.cluster.queue, self.invariants.check
        while queue.step(until):
            check()
        queue.run(until)

    def _join(self, name: str) -> None:
        actor = self.cluster.start_actor(name, Host(name=name, local=False))
        if name == GREEDY:
            actor.core.__class__ = GreedyCore

    def _revoke(self, host: str, seconds: float) -> None:
        """Revoke the key of a host; it is allowed again after `seconds`."""
        learner, network = self.cluster.learner, self.cluster.network
        if not learner.alive:
            return
        peers = learner.core.run.peers
        theirs = [one for role in ("actor", "launcher") for one, peer in peers.role(role) if _is_of(peer, host)]
        learner._do(learner.core.admission.leave_all(self.cluster.queue.now, theirs, "warning", "key revoked"))
        for routing_id in theirs:
            network.disconnect(routing_id, seconds)

    def _calm(self) -> None:
        self.cluster.calm()
        for name in self.guests & self.cluster.actors.keys():
            self.cluster.actors[name].kill()
        self.ledger.rollout_seconds = 2.0
        self.ledger.slow.clear()

    def _honest(self) -> list[str]:
        bad = self.guests | self.ledger.bad
        return [name for name, actor in self.cluster.actors.items() if actor.exit_code is None and name not in bad]

    def _gradients(self, name: str) -> int:
        peers = self.cluster.learner.core.run.peers.role("actor")
        return sum(peer.gradients for _, peer in peers if peer.hello.name == name)

    def _unwell(self, before: dict[str, int]) -> str:
        """Name a living actor that does not contribute, or a launcher whose actors are not as ordered; empty: none."""
        run = self.cluster.learner.core.run
        for name in self._honest():
            if self._gradients(name) <= before.get(name, 0):
                actor = self.cluster.actors[name]
                state = f"{actor.core.state}, {len(actor.core.outbox)} unanswered, {actor.core.membership.obstacle!r}"
                return f"{name} waits for ever: {self._gradients(name)} gradients in all; it is {state}"
        for name, launcher in self.cluster.launchers.items():
            report = launcher.core.report(self.cluster.queue.now)
            [peer] = [peer for _, peer in run.peers.role("launcher") if peer.hello.name == name] or [None]
            if peer is None or (report.running != peer.ordered and not report.why):
                return f"launcher {name} runs {report.running} actors: {report}, {peer and peer.ordered}"
        return ""


def settings_of(rng: Random) -> Settings:
    actors = rng.randint(1, 5)
    codec = rng.choice(["none", "int8", "top-k"])
    rules = {
        "exchange.kind": "gradients",
        "exchange.codec": codec,
        "exchange.entropy_coder": "none",
        "exchange.error_feedback": "true" if codec == "int8" and rng.random() < 0.5 else '"auto"',
        "exchange.credit": rng.choice([1, 1, 2, 3]),
        "exchange.accumulate": rng.choice([1, 4]),
        "exchange.coalesce": rng.choice([1, 2, 16]),
        "exchange.expiry_seconds": 6.0,
        "exchange.heartbeat_seconds": 1.0,
        "scaling.minimum": actors,
        "scaling.maximum": actors,
        "checkpoint.every_seconds": 5.0,
        "optimizer.kind": rng.choice(["sgd", "rmsprop", "adam"]),
        "optimizer.learning_rate": 0.01,
        "optimizer.anneal": "constant",
        "algorithm.max_grad_norm": MAX_NORM,
        "seed": rng.randrange(2**31),
    }
    return override(Settings(), [f"{key}={value}" for key, value in rules.items()])


def wanted_of(rng: Random, settings: Settings) -> Plan:
    """Draw a plan of how many actors are wanted from which time on."""
    times = sorted(rng.uniform(3, TROUBLE_SECONDS) for _ in range(rng.choice([0, 0, 1, 4])))
    return [(0.0, settings.scaling.minimum), *((time, rng.randint(0, 6)) for time in times)]


def _is_of(peer: Peer, host: str) -> bool:
    return host in (peer.hello.name, peer.hello.launcher)


def world_of(rng: Random) -> Simulation:
    names = ["lab", "attic"][: rng.randint(1, 2)]
    return Simulation(
        costs=Costs(
            message=rng.choice([0.0, 1e-3, 0.02]),
            optimizer_step=rng.choice([0.0, 0.01, 0.2]),
            actor_start=rng.uniform(0.1, 2.0),
            actor_prepare=rng.uniform(0.0, 2.0),
        ),
        hosts=[
            Host(
                name=name,
                slots=rng.randint(1, 4),
                speed=rng.uniform(0.5, 2),
                local=rng.random() < 0.3,
                link=link_of(rng),
            )
            for name in names
        ],
        incidents=[incident_of(rng, names) for _ in range(rng.randint(0, 10))],
    )


def link_of(rng: Random) -> Link:
    def share(most: float) -> float:
        return rng.choice([0.0, 0.0, rng.uniform(0, most)])

    return Link(
        delay=rng.choice([1e-4, 0.01, 0.3]),
        jitter=rng.choice([0.0, 0.05, 2.0, 5.0]),
        drop=share(0.3),
        duplicate=share(0.5),
        reorder=share(0.5),
        survive=rng.choice([0.0, 1.0]),
    )


def incident_of(rng: Random, names: list[str]) -> Incident:
    kinds: list[Any] = ["join", "leave", "crash", "partition", "heal", "stall", "learner-stall", "launcher-crash"]
    kinds += 2 * ["learner-crash"]  # so that gradients of an epoch come late to the next
    host = rng.choice(names)
    return Incident(
        at=rng.uniform(0, TROUBLE_SECONDS - 12),
        kind=rng.choice(kinds),
        who=rng.choice([host, f"{host}-{rng.randint(0, 2)}", ""]),
        seconds=rng.uniform(0, rng.choice([0.5, 12])),
        slots=rng.randint(0, 5),
    )
