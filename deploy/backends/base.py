"""What the launcher asks of a way to start actors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """An actor that is no more."""

    slot: int
    exit_code: int
    """As a shell counts: 128 + N after signal N, 127 if it could not be started."""
    last_words: str = ""
    """Its last lines, the newest last."""


class Backend(ABC):
    """Actors by slot number. No call blocks, but for `close`; none raises because of an actor."""

    @abstractmethod
    def start(self, slot: int) -> None:
        """Starts the actor of a slot in which none runs; if that fails, `poll` says so."""

    @abstractmethod
    def stop(self, slot: int, kill: bool = False) -> None:
        """Asks the actor to leave, or ends it; `poll` tells when it is gone. Nothing, if it is gone already."""

    @abstractmethod
    def poll(self) -> list[Ended]:
        """The actors that ended since the last call, each told once."""

    @property
    @abstractmethod
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""

    @abstractmethod
    def close(self) -> None:
        """Ends what still runs, at once, and waits until it is gone."""
