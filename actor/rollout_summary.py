"""The fields of a contribution's header that describe the rollouts in its body."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from common.rl.episode import Episode


@dataclass
class RolloutSummary:
    """One rollout or several; the fields are named as in `common.wire.messages.Contribution`."""

    version: int = 0
    steps: int = 0
    emulator_frames: int = 0
    count: int = 0
    episodes: list[Episode] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)
    moments: list[tuple[int, list[float], list[float]]] = field(default_factory=list)

    def add(self, other: RolloutSummary) -> None:
        """Adds the rollouts of `other`: statistics become means over all rollouts, the version is the oldest."""
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
        """Returns arguments for the header. Only a Gradient has statistics; the learner computes a trajectory's."""
        return {name: value for name, value in vars(self).items() if name != "statistics" or value}
