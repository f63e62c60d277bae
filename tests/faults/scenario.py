"""One simulation of random faults from a seed: the same seed is the same simulation, event by event.

A time of faults is followed by a calm, in which everything must come to rights again.
"""

from __future__ import annotations

from random import Random
from typing import Any

from actor.core import ActorCore
from common.settings.sections import Settings
from common.settings.toml import override
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Host, Incident, Link, Simulation
from tests.faults.invariants import Invariants
from tests.faults.ledger import Ledger, Violation

TROUBLE_SECONDS = 40.0
CALM_SECONDS = 85.0
"""After which everything is well: pulls and launchers try again after half a minute at the latest."""
WELL_SECONDS = 15.0
"""In which everybody then takes part."""
GREEDY = "greedy"


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
        self.ledger = Ledger(self.settings)
        self.cluster = Cluster(
            self.settings,
            self.world,
            MemoryRecorder(),
            make_core=self.ledger.make_core,
            make_player=self.ledger.make_player,
        )
        self.greedy = {GREEDY} if rng.random() < 0.2 else set()
        if self.greedy:
            self.cluster.queue.at(rng.uniform(1, 20), self._join_greedy)
        self.invariants = Invariants(self.cluster, self.ledger, self.greedy)

    def run(self) -> None:
        """Raises Violation, or what a core raises."""
        self.ledger.rollout_seconds = 0.7
        self._run(TROUBLE_SECONDS)
        self._calm()
        self._run(TROUBLE_SECONDS + CALM_SECONDS)
        before = {name: self._gradients(name) for name in self._honest()}
        self._run(TROUBLE_SECONDS + CALM_SECONDS + WELL_SECONDS)
        self._all_is_well(before)

    def _run(self, until: float) -> None:
        queue = self.cluster.queue
        while queue.deadline <= until:
            queue.step()
            self.invariants.check()
        queue.run(until)

    def _join_greedy(self) -> None:
        actor = self.cluster.start_actor(GREEDY, Host(name="greedy", local=False))
        actor.core.__class__ = GreedyCore

    def _calm(self) -> None:
        self.cluster.calm()
        if GREEDY in self.cluster.actors:
            self.cluster.actors[GREEDY].kill()
        self.ledger.rollout_seconds = 2.0

    def _honest(self) -> list[str]:
        actors = self.cluster.actors
        return [name for name, actor in actors.items() if actor.exit_code is None and name not in self.greedy]

    def _gradients(self, name: str) -> int:
        peers = self.cluster.learner.core.run.peers.role("actor")
        return sum(peer.gradients for _, peer in peers if peer.hello.name == name)

    def _all_is_well(self, before: dict[str, int]) -> None:
        """Every actor that lives takes part, and there are as many as are wanted."""
        run = self.cluster.learner.core.run
        for name in self._honest():
            if self._gradients(name) <= before.get(name, 0):
                actor = self.cluster.actors[name]
                state = f"{actor.core.state}, {len(actor.core.outbox)} unanswered, {actor.core.membership.obstacle!r}"
                raise Violation(f"{name} waits for ever: {self._gradients(name)} gradients in all; it is {state}")
        for name, launcher in self.cluster.launchers.items():
            report = launcher.core.report(self.cluster.queue.now)
            [peer] = [peer for _, peer in run.peers.role("launcher") if peer.hello.name == name] or [None]
            if peer is None or (report.running != peer.ordered and not report.why):
                raise Violation(f"launcher {name} runs {report.running} actors: {report}, {peer and peer.ordered}")


def settings_of(rng: Random) -> Settings:
    actors = rng.randint(1, 5)
    rules = {
        "exchange.kind": "gradients",
        "exchange.codec": "none",
        "exchange.entropy_coder": "none",
        "exchange.credit": rng.choice([1, 1, 2, 3]),
        "exchange.accumulate": rng.choice([1, 4]),
        "exchange.coalesce": rng.choice([1, 2, 16]),
        "exchange.expiry_seconds": 6.0,
        "exchange.heartbeat_seconds": 1.0,
        "scaling.minimum": actors,
        "scaling.maximum": actors,
        "checkpoint.every_seconds": 5.0,
        "seed": rng.randrange(2**31),
    }
    return override(Settings(), [f"{key}={value}" for key, value in rules.items()])


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
            Host(name=name, slots=rng.randint(1, 4), speed=rng.uniform(0.5, 2), link=link_of(rng)) for name in names
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
    kinds: list[Any] = ["join", "leave", "crash", "partition", "heal", "stall", "learner-stall"]
    kinds += 2 * ["learner-crash"]  # so that gradients of an epoch come late to the next
    host = rng.choice(names)
    return Incident(
        at=rng.uniform(0, TROUBLE_SECONDS - 12),
        kind=rng.choice(kinds),
        who=rng.choice([host, f"{host}-{rng.randint(0, 2)}", ""]),
        seconds=rng.uniform(0, rng.choice([0.5, 12])),
    )
