"""What the launcher asks of a way to start actors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """An actor that is no more."""

    slot: int
    exit_code: int
    """As a shell counts: 128 + N after signal N, 127 if it could not be started."""
    last_words: str = ""
    """Its last lines, the newest last."""


@dataclass(frozen=True)
class Found:
    """An actor that runs although this launcher did not start it: one before it did."""

    slot: int


@dataclass(frozen=True)
class Condition:
    """How a way to start actors stands now."""

    trouble: str = ""
    """What keeps it from starting actors or from seeing them, in one line; empty: nothing."""
    starting: frozenset[int] = frozenset()
    """Of the slots that run, those whose actor is asked for and not at work yet."""
    ready: frozenset[int] | None = None
    """Slots in which an actor may be started; None: all. Never one in which another might run unseen."""
    settled: bool = True
    """False: too early to tell what is `ready`."""


class Backend(ABC):
    """Actors by slot number. No call blocks, but for `close`; none raises because of an actor."""

    outlives = False
    """Whether the actors live on when the launcher ends, to be found by the next one."""

    @abstractmethod
    def start(self, slot: int) -> None:
        """Starts the actor of a slot in which none runs; if that fails, `poll` or `condition` says so."""

    @abstractmethod
    def stop(self, slot: int, kill: bool = False) -> None:
        """Asks the actor to leave, or ends it; `poll` tells when it is gone. Nothing, if it is gone already."""

    @abstractmethod
    def poll(self) -> Sequence[Ended | Found]:
        """The actors that ended or were found since the last call, each told once."""

    @property
    @abstractmethod
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""

    @abstractmethod
    def close(self) -> None:
        """Ends what still runs, at once, and waits until it is gone; where actors outlive, lets go of them instead."""

    @property
    def condition(self) -> Condition:
        """How it stands."""
        return Condition()

    def wish(self, actors: int) -> None:  # noqa: B027 (most need no more than `start` and `stop`)
        """How many actors are wanted in all; told with every change, from the learner's first order on."""

    def host(self, slot: int) -> str:  # noqa: ARG002
        """Where the actor of a slot runs, if not all run in one place; a bad host does not make the others hopeless."""
        return ""
