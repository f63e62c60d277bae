"""Invariants that hold after every event of a simulation, whatever goes wrong in it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.cluster import Cluster
from tests.faults.ledger import STEPS, Ledger
from tests.faults.sums import Violation


class Invariants:
    def __init__(self, cluster: Cluster, ledger: Ledger, greedy: set[str]) -> None:
        """greedy: actors that ignore credit, for which it is not checked."""
        self.applied: dict[int, int] = {}
        """The epoch of each rollout that is in a step."""
        self.last_applied: Counter[str] = Counter()
        self._cluster = cluster
        self._ledger = ledger
        self._greedy = greedy
        self._epoch = 0
        self._version = 0
        self._steps = 0
        self._first_frames = self._frames = 0
        exchange = ledger.settings.exchange
        self._credit = exchange.credit
        self._most = exchange.coalesce
        self._expiry_seconds = exchange.expiry_seconds

    def check(self) -> None:
        """Checks all invariants; raises Violation."""
        self._look_at_steps()
        self._look_at_credit()
        self._look_at_orders()
        self._look_at_peers()

    def _look_at_steps(self) -> None:
        """Each rollout is in at most one step, of its own epoch; the version grows by one with each step."""
        epoch, noted = self._ledger.learners[-1]
        counters = self._cluster.learner.core.run.stats.counters
        if epoch != self._epoch:
            self._epoch, self._steps, self._version = epoch, 0, counters.version
            self._first_frames, self._frames = counters.frames, 0
        if counters.version < self._version:
            raise Violation(f"version {counters.version} follows {self._version}")
        if counters.version - self._version != len(noted.steps) - self._steps:
            raise Violation(f"{len(noted.steps) - self._steps} steps to version {counters.version}, {self._version=}")
        self._version = counters.version
        for step in noted.steps[self._steps :]:
            if not 1 <= len(step.added) <= self._most:
                raise Violation(f"a step of {len(step.added)} gradients; at most {self._most} go into one")
            for one in step.added:
                self._count(*self._ledger.meaning[one.key], epoch)
        self._steps = len(noted.steps)
        if counters.frames - self._first_frames != self._frames:
            raise Violation(f"{counters.frames - self._first_frames} frames counted, {self._frames} played")

    def _count(self, played_in: int, rollouts: list[int], epoch: int) -> None:
        if played_in != epoch:
            raise Violation(f"rollouts {rollouts} of epoch {played_in} are in a step of epoch {epoch}")
        for rollout in rollouts:
            if rollout in self.applied:
                raise Violation(f"rollout {rollout} is in a step of epoch {epoch}, and of {self.applied[rollout]}")
            self.applied[rollout] = epoch
            self._frames += STEPS

    def _look_at_credit(self) -> None:
        """No honest actor has more unanswered gradients than its credit, and the learner counts those it keeps."""
        for name, actor in self._cluster.actors.items():
            if actor.exit_code is None and name not in self._greedy and len(actor.core.outbox) > self._credit:
                raise Violation(f"{name} has {len(actor.core.outbox)} gradients unanswered, {self._credit} allowed")
        exchange: Any = self._cluster.learner.core._exchange
        if not exchange._waiting and not exchange._held and not any(exchange._unanswered.values()):
            return
        kept = Counter(one.peer.incarnation for one in (*exchange._waiting, *exchange._held))
        if {who: count for who, count in exchange._unanswered.items() if count} != kept:
            raise Violation(f"the learner keeps {dict(kept)}, and counts {dict(exchange._unanswered)}")
        if kept and max(kept.values()) > self._credit:
            raise Violation(f"the learner keeps {dict(kept)}, {self._credit} allowed")

    def _look_at_orders(self) -> None:
        """The orders to the launchers add up to the wanted number of actors, or to all slots if these are fewer."""
        run = self._cluster.learner.core.run
        launchers = [peer for _, peer in run.peers.role("launcher")]
        if not launchers:
            return
        ordered, room = sum(peer.ordered for peer in launchers), sum(peer.slots for peer in launchers)
        if ordered != min(run.stats.decision.wanted, room):
            raise Violation(f"{ordered} actors ordered, {run.stats.decision.wanted} wanted, room for {room}")
        for peer in launchers:
            if peer.ordered > peer.slots:
                raise Violation(f"{peer.hello.name} is ordered {peer.ordered} actors, and has {peer.slots} slots")

    def _look_at_peers(self) -> None:
        """Every actor in the run was heard from recently."""
        learner, now = self._cluster.learner, self._cluster.queue.now
        if not learner.alive:
            return
        # A learner that never gets to read everything counts a silence only after all peers have had their turn.
        reading = self._expiry_seconds + 3.0
        for _, peer in learner.core.run.peers.role("actor"):
            within = peer.patience * self._expiry_seconds + reading
            if now - max(peer.seen, learner.stalled_until) > within:
                raise Violation(f"{peer.hello.name} is in the run, and silent for {now - peer.seen:.1f} s")
