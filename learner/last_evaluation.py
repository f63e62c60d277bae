"""The last evaluation of a run: nothing is learnt any more, and the end waits until the last weights are judged.

Without it the best checkpoint would be one from before, however far the weights have come since its evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from common.wire.messages import Role
from learner.checkpoints import Checkpoints
from learner.effects import Effect, Ending, Log, WriteMetrics
from learner.evaluations import Evaluations
from learner.run import Run

LONGEST_SECONDS = 600.0
"""Longest wait: an evaluator may first have to finish earlier weights, and the best are played twice."""
LEAVE_FIRST: tuple[Role, ...] = ("actor", "relay", "launcher")
"""Roles of the peers that are told of the end before it."""


class LastEvaluation:
    def __init__(self, run: Run, evaluations: Evaluations, checkpoints: Checkpoints) -> None:
        self._run = run
        self._evaluations = evaluations
        self._checkpoints = checkpoints
        self._row: Mapping[str, Any] = {}
        """The row of metrics when the learning ended; by now the actors have left."""
        self._until = math.inf
        self.ending: tuple[Ending, str] | None = None
        """How and why the learning ended; None: it goes on."""

    def is_wanted(self, ending: Ending) -> bool:
        """Whether a run with this ending is to be evaluated once more, and somebody is there to do it."""
        limits = self._run.spec.settings.limits
        if ending == "reached" and limits.until_return_of == "evaluation":
            return False
        return ending in ("reached", "finished") and self._evaluations.awaited

    def begin(self, now: float, ending: Ending, reason: str, row: WriteMetrics) -> list[Effect]:
        """Save the last weights; the caller tells the peers that took part in the learning that it has ended."""
        self.ending = ending, reason
        self._row = row.row
        self._until = now + LONGEST_SECONDS
        self._run.stats.learnt(now)
        self._evaluations.hurry(now)
        line = Log("info", f"{reason}: the last weights are evaluated, then the run ends", own=True)
        return [line, self._checkpoints.begin(now)]

    @property
    def deadline(self) -> float:
        """When `tick` next has something to do; infinite: not before the next message."""
        return self._until if self._run.saves.writing else min(self._until, self._evaluations.deadline)

    def tick(self, now: float) -> list[Effect]:
        """Give the last weights to the first evaluator that has nothing else to do, once they are on the disk."""
        saves = self._run.saves
        if saves.writing:
            return []
        if self._checkpoints.is_ordered:
            return [self._checkpoints.begin(now)]
        if not self._evaluations.is_due(now):
            return []
        saved = saves.version == self._run.stats.counters.version
        return self._evaluations.give(now, saved=saved and self._run.spec.settings.checkpoint.best)

    def is_over(self, now: float) -> bool:
        return now >= self._until or not self._evaluations.awaited

    def row(self) -> WriteMetrics:
        """Return the run's last row of metrics."""
        return WriteMetrics({**self._row, **self._run.evaluated()})
