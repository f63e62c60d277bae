"""The place for one actor: what it needs, and when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deploy.backoff import backoff

FIRST_BACKOFF_SECONDS = 0.5
STEADY_SECONDS = 60.0
"""An actor that ran so long starts over with the first back-off, and proves that actors can run here: on a very busy
machine half of it goes into loading torch."""
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True)
class StartActor:
    """Start the actor of this slot."""

    slot: int


@dataclass(frozen=True)
class StopActor:
    """Ask the actor of this slot to leave; `kill`: it did not."""

    slot: int
    kill: bool = False


@dataclass
class Slot:
    """Planned: an actor is wanted here; alive and not planned: it is on its way out."""

    number: int
    host: str = ""
    planned: bool = False
    alive: bool = False
    started: float = -math.inf
    due: float = -math.inf
    """Not started before."""
    setbacks: int = 0
    """Times it ended by itself since it last ran steadily."""
    stop_at: float = math.inf
    kill_at: float = math.inf
    asked: bool = False
    killed: bool = False

    def start(self, now: float) -> StartActor:
        """Its actor is to be started."""
        self.adopt(now)
        return StartActor(self.number)

    def adopt(self, now: float) -> None:
        """An actor runs here from now on."""
        self.alive, self.started = True, now
        self.stop_at = self.kill_at = math.inf
        self.asked = self.killed = False

    def dismiss(self, at: float) -> None:
        """Not wanted any more: asked to leave at `at`, or earlier if it was to be asked earlier."""
        self.planned = False
        self.stop_at = min(self.stop_at, at)
        self.kill_at = min(self.kill_at, at + GRACE_SECONDS)

    def ended(self, now: float) -> None:
        """Started again after 0.5 s, then 1, 2, 4, ... 30 s."""
        if now - self.started >= STEADY_SECONDS:
            self.setbacks = 0
        self.setbacks += 1
        self.due = now + backoff(self.setbacks, FIRST_BACKOFF_SECONDS)

    def act(self, now: float) -> StartActor | StopActor | None:
        """What this slot needs now, if anything."""
        if self.planned:
            return self.start(now) if not self.alive and now >= self.due else None
        if self.alive and not self.killed and now >= self.kill_at:
            self.asked = self.killed = True
            return StopActor(self.number, kill=True)
        if self.alive and not self.asked and now >= self.stop_at:
            self.asked = True
            return StopActor(self.number)
        return None

    @property
    def deadline(self) -> float:
        """When `act` has something to do next."""
        if self.planned:
            return math.inf if self.alive else self.due
        if not self.alive or self.killed:
            return math.inf
        return self.kill_at if self.asked else self.stop_at
