"""What a gradient message says besides the gradient: what was played for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.rl.episode import Episode


@dataclass
class Harvest:
    """What goes into the next gradient message besides the gradient itself."""

    version: int = 0
    steps: int = 0
    emulator_frames: int = 0
    count: int = 0
    episodes: list[Episode] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)
    moments: list[tuple[int, list[float], list[float]]] = field(default_factory=list)

    def add(self, other: Harvest) -> None:
        """Takes in one more rollout; statistics are means, the version is the oldest."""
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
