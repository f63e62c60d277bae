"""The fields of a contribution's header that describe the rollouts in its body."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from common.rl.episode import Episode


@dataclass
class RolloutSummary:
    """One rollout, or several whose gradients were added up; named as in `common.wire.messages.Contribution`."""

    version: int = 0
    steps: int = 0
    emulator_frames: int = 0
    count: int = 0
    episodes: list[Episode] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)
    moments: list[tuple[int, list[float], list[float]]] = field(default_factory=list)

    def add(self, other: RolloutSummary) -> None:
        """Adds rollouts; statistics become means over all, the version is the oldest."""
        self.version = other.version if self.count == 0 else min(self.version, other.version)
        total = self.count + other.count
        self.statistics = {
            key: (self.statistics.get(key, value) * self.count + value * other.count) / total
            for key, value in other.statistics.items()
        }
        self.count = total
        self.steps += other.steps
        self.emulator_frames += other.emulator_frames
        self.episodes += other.episodes
        self.moments += other.moments

    def fields(self) -> dict[str, Any]:
        """Arguments for the header. Only a Gradient has statistics; a trajectory's are computed by the learner."""
        return {name: value for name, value in vars(self).items() if name != "statistics" or value}
