"""When the learner takes an optimizer step: with what has come, or once enough actors have sent."""

from __future__ import annotations

import abc
import math
from collections.abc import Collection

ACTORS_PER_GRADIENT = 5
"""Coalescing: one more gradient per step for so many actors; with a larger share learning is short of steps."""

Incarnation = tuple[str, str]
"""Name of an actor, and which of its processes."""


def coalesce(actors: int, cap: int) -> int:
    """Most waiting contributions that one optimizer step adds up: clamp(actors / 5, 1, cap)."""
    return max(1, min(actors // ACTORS_PER_GRADIENT, cap))


def quorum(share: float, actors: int) -> int:
    """Actors that a synchronous step waits for: this share of them, rounded up."""
    return math.ceil(round(share * actors, 9))


class StepRule(abc.ABC):
    """A step is taken when `is_full` says so, or `wait_seconds` after the first contribution to it."""

    wait_seconds: float

    @abc.abstractmethod
    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        """Whether a step is to be taken at once; one sender for each contribution, `actors` are in the run."""


class AtOnce(StepRule):
    """A step with whatever has come, and before more has come than one step may take."""

    wait_seconds = 0.0

    def __init__(self, cap: int) -> None:
        self._cap = cap

    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        return len(senders) >= coalesce(len(actors), self._cap)


class Synchronous(StepRule):
    """A step once a share of the actors that are in the run has sent. An actor that left does not count as one."""

    def __init__(self, share: float, wait_seconds: float) -> None:
        """`share` of the actors, above 0 and up to 1."""
        self._share = share
        self.wait_seconds = wait_seconds

    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        sent, present = set(senders), set(actors)
        return bool(sent) and len(sent & present) >= quorum(self._share, len(present))
