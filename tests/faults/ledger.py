"""What really happened to every rollout: players whose rollouts are numbers, and a learner that only takes notes.

The cores are the daemons' own. A gradient's body is the list of rollouts added up in it, so that the learner's sum
shows what was applied; weights tell the version that they are of.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec

from actor.core import Prepare
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.run.folder import Checkpoint
from common.settings.sections import Settings
from common.wire.frames import Buffer
from common.wire.messages import Gradient
from learner.core import LearnerCore
from learner.run_stats import Counters
from simulation.actor_node import ActorNode
from tests.helpers.run import NotedSum, core_of, run_of, version_of

STEPS = 20
"""Of each rollout."""


class Violation(Exception):
    """Something that must never happen has happened."""


class Ledger:
    """All rollouts and all learners of one simulation."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rollout_seconds = 1.0
        self.numbers = itertools.count()
        self.learners: list[tuple[int, NotedSum]] = []
        """Epoch and notes of each."""

    def make_core(self, epoch: int, checkpoint: Checkpoint | None, now: float) -> LearnerCore:
        counters = Counters() if checkpoint is None else msgspec.convert(checkpoint.state["counters"], Counters)
        noted = NotedSum(counters.version)
        self.learners.append((epoch, noted))
        return core_of(run_of(self.settings, epoch=epoch, counters=counters, now=now), noted, now)

    def make_player(self, effect: Prepare, node: ActorNode) -> NumberPlayer:
        return NumberPlayer(self, effect, node)


class NumberPlayer(Player):
    contribution = Gradient

    def __init__(self, ledger: Ledger, effect: Prepare, node: ActorNode) -> None:
        self._ledger = ledger
        self._node = node
        self._pending: list[int] = []
        self._summary = RolloutSummary()
        self._loaded = (-1, -1)
        """Epoch and version of the newest weights."""
        self._version = 0
        self._answered: set[int] = set()
        if effect.body is not None:
            self.load(effect.welcome.version, effect.body)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def advance(self, until: float) -> bool:
        self._node.clock.now += self._ledger.rollout_seconds
        self._pending.append(next(self._ledger.numbers))
        self._summary.add(RolloutSummary(self._version, steps=STEPS, emulator_frames=STEPS, count=1))
        return True

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        welcome = self._node.core.membership.welcome
        assert welcome is not None and not delta
        if version_of(body) != version:
            raise Violation(f"{self._node.name}: weights of version {version_of(body)} were sent as {version}")
        if (welcome.epoch, version) < self._loaded:
            raise Violation(f"{self._node.name}: version {version} of epoch {welcome.epoch} came after {self._loaded}")
        self._loaded, self._version = (welcome.epoch, version), version
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        welcome = self._node.core.membership.welcome
        assert welcome is not None
        body: dict[str, Any] = {"epoch": welcome.epoch, "rollouts": self._pending}
        self._pending = []
        summary, self._summary = self._summary, RolloutSummary()
        return summary, json.dumps(body).encode()

    def answered(self, sequence: int, *, dropped: bool) -> None:
        if sequence in self._answered:
            raise Violation(f"{self._node.name}: gradient {sequence} was answered twice")
        self._answered.add(sequence)

    def forget(self) -> None:
        self._pending = []
        self._summary = RolloutSummary()
        self._version = 0

    def close(self) -> None:
        pass
