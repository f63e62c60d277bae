"""The truth about every rollout: players whose gradients are known, and a learner whose steps are replayed.

The cores are the daemons' own, as are the codecs, the learner's sum and its optimizer. The ledger notes which rollouts
each gradient sums up, and the weights of each version.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from actor.effects import Prepare
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.run.folder import Checkpoint
from common.settings.codec_names import feeds_back
from common.settings.sections import Settings
from common.wire.codecs.feedback import RESIDUAL_ROLLOUTS, ErrorFeedback
from common.wire.codecs.registry import make
from common.wire.frames import Buffer
from common.wire.messages import Gradient
from learner.core import LearnerCore
from learner.peer import Peer
from learner.run_stats import Counters
from learner.scaling import Decision, Measurement
from simulation.actor_node import ActorNode
from tests.faults.sums import MAX_NORM, SIZE, Key, Replay, ReplayedSum, Vector, Violation
from tests.helpers.run import core_of, run_of

STEPS = 20
"""Steps of each rollout."""
BAD = b"bad"
"""The body of a gradient that no learner can use."""
_WAVE = np.arange(1, SIZE + 1) * 0.7


def gradient_of(rollout: int) -> Vector:
    """Return the rollout's own gradient, of a norm of at most MAX_NORM."""
    return (0.3 * np.sin(_WAVE * (rollout + 1))).astype(np.float32)


class Wanted:
    """A scaling policy that follows a plan."""

    def __init__(self, plan: Sequence[tuple[float, int]]) -> None:
        """plan: times, in order, and the number of actors wanted from then on."""
        self._times = [time for time, _ in plan]
        self._numbers = [number for _, number in plan]

    def decide(self, now: float, measurement: Measurement) -> Decision:
        return Decision(self._numbers[max(0, bisect.bisect(self._times, now) - 1)], "as planned")


class Ledger:
    """All rollouts and all learners of one simulation."""

    def __init__(self, settings: Settings, wanted: Sequence[tuple[float, int]], slow: dict[str, float]) -> None:
        """slow: factors on the time of a rollout, by the actor's name."""
        self.settings = settings
        self.rollout_seconds = 1.0
        self.slow = slow
        self.bad: set[str] = set()
        """Names of actors that send unusable gradients."""
        self.numbers = itertools.count()
        self.learners: list[tuple[int, ReplayedSum]] = []
        """Epoch and sum of each learner."""
        self.meaning: dict[Key, tuple[int, list[int]]] = {}
        """The epoch of each gradient, and the rollouts in it."""
        self.weights: dict[tuple[int, int], bytes] = {}
        """Weights by epoch and version."""
        self.replay = Replay(settings)
        self._wanted = Wanted(wanted)

    def make_core(self, epoch: int, checkpoint: Checkpoint | None, now: float) -> LearnerCore:
        counters = Counters() if checkpoint is None else msgspec.convert(checkpoint.state["counters"], Counters)
        versions = itertools.count(counters.version)

        def note(vector: Vector) -> None:
            self.weights[epoch, next(versions)] = vector.tobytes()

        total = ReplayedSum(self.settings, self.replay, note)
        if checkpoint is None:
            self.replay.rewind(0)
        else:
            total.restore(counters.version, checkpoint)
        note(total.weights.vector.numpy())
        self.learners.append((epoch, total))
        run = run_of(self.settings, epoch=epoch, counters=counters, now=now)
        run = dataclasses.replace(run, spec=dataclasses.replace(run.spec, parameters=SIZE))
        core = core_of(run, total, now)
        exchange: Any = core._exchange
        handle = exchange.handle

        def known(now: float, routing_id: bytes, peer: Peer, message: Gradient, body: Buffer | None) -> Any:
            total.key = (peer.hello.incarnation, message.sequence)
            return handle(now, routing_id, peer, message, body)

        exchange.handle = known
        core._fleet._scaler = self._wanted  # type: ignore[assignment]
        return core

    def make_player(self, effect: Prepare, node: ActorNode) -> KnownPlayer:
        return KnownPlayer(self, effect, node)


class KnownPlayer(Player):
    contribution = Gradient

    def __init__(self, ledger: Ledger, effect: Prepare, node: ActorNode) -> None:
        self._ledger = ledger
        self._node = node
        self._rollouts: list[int] = []
        self._summary = RolloutSummary()
        self._loaded = (-1, -1)
        """Epoch and version of the newest weights."""
        self._version = 0
        self._answered: set[int] = set()
        self._sum = np.zeros(SIZE, np.float32)
        self._codec = make(effect.welcome.codec, SIZE)
        self._feedback: ErrorFeedback | None = None
        self._books = Books()
        if feeds_back(effect.settings.exchange.error_feedback, effect.welcome.codec):
            self._feedback = ErrorFeedback(self._codec, RESIDUAL_ROLLOUTS * MAX_NORM)
        if effect.body is not None:
            self.load(effect.welcome.version, effect.body)

    @property
    def pending(self) -> int:
        return len(self._rollouts)

    def advance(self, until: float) -> bool:
        self._node.clock.now += self._ledger.rollout_seconds * self._ledger.slow.get(self._node.name, 1.0)
        rollout = next(self._ledger.numbers)
        self._rollouts.append(rollout)
        self._sum += gradient_of(rollout)
        self._summary.add(RolloutSummary(self._version, steps=STEPS, emulator_frames=STEPS, count=1))
        return True

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        welcome = self._node.core.membership.welcome
        assert welcome is not None and not delta
        if bytes(body) != self._ledger.weights.get((welcome.epoch, version)):
            raise Violation(f"{self._node.name}: others were sent as version {version} of epoch {welcome.epoch}")
        if (welcome.epoch, version) < self._loaded:
            raise Violation(f"{self._node.name}: version {version} of epoch {welcome.epoch} came after {self._loaded}")
        self._loaded, self._version = (welcome.epoch, version), version
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        welcome = self._node.core.membership.welcome
        assert welcome is not None and sequence is not None
        if self._feedback is None:
            body = self._codec.encode(self._sum)
        else:
            body = self._feedback.encode(self._sum, sequence)
            self._books.sent(sequence, self._sum, self._ledger.replay.decoded(body, welcome.codec))
            self._audit()
        if self._node.name in self._ledger.bad:
            body = BAD
        self._ledger.meaning[self._node.core.membership.hello.incarnation, sequence] = (welcome.epoch, self._rollouts)
        self._rollouts = []
        self._sum.fill(0)
        summary, self._summary = self._summary, RolloutSummary()
        return summary, body

    def answered(self, sequence: int, *, dropped: bool) -> None:
        if sequence in self._answered:
            raise Violation(f"{self._node.name}: gradient {sequence} was answered twice")
        self._answered.add(sequence)
        if self._feedback is not None:
            self._feedback.answered(sequence, dropped=dropped)
            self._books.answered(sequence, dropped)
            self._audit()

    def forget(self) -> None:
        self._rollouts = []
        self._sum.fill(0)
        self._summary = RolloutSummary()
        self._version = 0
        if self._feedback is not None:
            self._feedback.reset()
            self._books = Books()

    def close(self) -> None:
        pass

    def _audit(self) -> None:
        assert self._feedback is not None
        owed = self._books.owed
        if owed is not None and np.abs(self._feedback.residual - owed).max() > 1e-3:
            raise Violation(f"{self._node.name} owes {owed} of what it played, and keeps {self._feedback.residual}")


class Books:
    """What an actor with error feedback owes: the vectors that were not discarded, minus their decoded gradients."""

    def __init__(self) -> None:
        self._settled = np.zeros(SIZE)
        self._open: dict[int, Vector] = {}
        self._bounded = False
        """Whether the debt was ever so large that the actor's bound may have cut it."""

    def sent(self, sequence: int, vector: Vector, decoded: Vector) -> None:
        self._open[sequence] = vector.astype(np.float64) - decoded

    def answered(self, sequence: int, dropped: bool) -> None:
        error = self._open.pop(sequence)
        if not dropped:
            self._settled += error

    @property
    def owed(self) -> Vector | None:
        """The debt; None: it is no longer known."""
        owed = sum(self._open.values(), self._settled)
        self._bounded = self._bounded or np.linalg.norm(owed) > 0.9 * RESIDUAL_ROLLOUTS * MAX_NORM
        return None if self._bounded else owed
