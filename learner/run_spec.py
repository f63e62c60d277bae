"""What stays the same for one epoch of a run, and what the core asks of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from common.rl.moments import Moments
from common.settings.sections import Settings
from common.wire.frames import Buffer

SEEDS_PER_RUN = 100_003
"""Actors of runs whose seeds are neighbours do not share theirs."""


@dataclass(frozen=True)
class Plan:
    """A run's identity and resolved settings; `plain` is `settings` as sent to actors."""

    run: str
    epoch: int
    settings: Settings
    plain: dict[str, Any]
    network: str
    model: str
    parameters: int
    device: str
    host: str
    run_dir: str
    weights_port: int
    weights_format: str
    counted: int = 0
    """Numbers whose moments come with each gradient."""
    clock: float = 0.0
    """Seconds since 1970 when the core's clock showed 0."""
    versions: dict[str, str] = field(default_factory=dict)

    def actor_seed(self, ordinal: int) -> int:
        """The seed of an actor, by the order in which they came."""
        return self.settings.seed * SEEDS_PER_RUN + ordinal


class Store(Protocol):
    """The weights and what changes them (parameters/weights.py or parameters/batch_trainer.py)."""

    @property
    def reach(self) -> int | None:
        """Largest lag of a gradient that can be added; None: any."""

    def add(self, body: Buffer, codec: str, weight: float, count: int = 1, lag: int = 0) -> None:
        """Adds a packed gradient, the sum of `count`, or so many rollouts to the next step.

        Raises CodecError and leaves all as it was.
        """

    def observe(self, moments: Moments) -> None:
        """Takes in what rollouts saw, for statistics that go out with the weights."""

    def step(self, *, scale: float, frames: int) -> Mapping[str, float]:
        """One new version with what was added, at a step size times `scale`.

        Returns the statistics of the loss where it was computed here, else nothing.
        """

    def body(self, form: str) -> bytes:
        """The weights as sent."""

    def keyframe(self, form: str, version: int) -> bytes:
        """Takes the weights, which are of this version, for those that deltas are against; their body."""

    def delta(self) -> tuple[bytes, bool]:
        """The weights against the keyframe, and whether another is due."""
