"""When the learner takes an optimizer step: with the contributions that have arrived, or once enough actors have sent.

A step is taken when the rule's `is_full` says so, or `wait_seconds` after its first contribution. `is_full` is given
the sender of each contribution, and the actors in the run.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from common.settings.exchanges import staleness_policy
from common.settings.sections import Settings
from learner.parameters.publisher import Occasion
from learner.replay_window import Incarnation

ACTORS_PER_GRADIENT = 5
"""Coalescing: a step takes one gradient for every five actors; with more per step, learning gets too few steps."""

GATHER_ACTORS = 100
"""Number of actors from which on messages that arrive one by one are left to gather before they are read."""
GATHER_SECONDS = 0.002
"""Time to gather. Threads then wake up less often: a thousand gradients a second take three quarters of the time."""


def coalesce(actors: int, cap: int) -> int:
    """Return the most contributions that one optimizer step adds up: clamp(actors / 5, 1, cap)."""
    return max(1, min(actors // ACTORS_PER_GRADIENT, cap))


def quorum(share: float, actors: int) -> int:
    """Return the number of actors that a synchronous step waits for: this share of them, rounded up."""
    return math.ceil(round(share * actors, 9))


@dataclass(frozen=True)
class AtOnce:
    """A step takes whatever has arrived, and does not wait until there is more than one step may take."""

    cap: int
    wait_seconds: float = 0.0
    averages: ClassVar = False
    """Whether a step is taken with the mean of the contributions, not with their normalised sum."""
    asks_who: ClassVar = False
    """Whether `is_full` depends on which actors have sent; otherwise `least` contributions are enough."""
    weights_go_out: ClassVar[Occasion] = "broadcast"

    def least(self, actors: int) -> int:
        """Return the number of contributions below which a step is never full, whoever sent them."""
        return coalesce(actors, self.cap)

    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        return len(senders) >= coalesce(len(actors), self.cap)


@dataclass(frozen=True)
class AllThatWaits:
    """A step takes whatever has arrived: a GPU learns from many rollouts in little more time than from one.

    It is full when there is a contribution for each actor; before that, it is taken when nothing is left to read.
    """

    wait_seconds: float = 0.0
    averages: ClassVar = False
    asks_who: ClassVar = False
    weights_go_out: ClassVar[Occasion] = "broadcast"

    def least(self, actors: int) -> int:
        return max(1, actors)

    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        return len(senders) >= max(1, len(actors))


@dataclass(frozen=True)
class Synchronous:
    """A step is taken once a share, up to 1, of the actors in the run has sent; actors that have left do not count.

    A share of 0 takes a step with whatever has arrived.
    """

    share: float
    wait_seconds: float
    averages: ClassVar = True
    asks_who: ClassVar = True
    weights_go_out: ClassVar[Occasion] = "answer"

    def least(self, actors: int) -> int:
        return max(1, quorum(self.share, actors))

    def is_full(self, senders: Collection[Incarnation], actors: Collection[Incarnation]) -> bool:
        sent, present = set(senders), set(actors)
        return bool(sent) and len(sent & present) >= quorum(self.share, len(present))


StepRule = AtOnce | AllThatWaits | Synchronous


def step_rule(settings: Settings, device: str) -> StepRule:
    """Return the rule of a run; `settings`: with every `auto` resolved; `device`: the learner's."""
    if settings.reproducible:
        return Synchronous(0.0, settings.staleness.wait_seconds)  # contributions arrive in whole rounds already
    if staleness_policy(settings) == "synchronous":
        return Synchronous(settings.staleness.share, settings.staleness.wait_seconds)
    if device != "cpu" and settings.exchange.kind != "gradients":
        return AllThatWaits()
    return AtOnce(settings.exchange.coalesce)


def gather_seconds(rule: StepRule, actors: int) -> float:
    """Return the least seconds between two reads when no message is waiting; 0 if the actors wait for each step."""
    return GATHER_SECONDS if actors >= GATHER_ACTORS and not rule.averages else 0.0
