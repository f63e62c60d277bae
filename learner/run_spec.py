"""What stays the same for one epoch of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.settings.sections import Settings

SEEDS_PER_RUN = 100_003
"""Distance between the actor seeds of runs with neighbouring seeds, so that they do not overlap."""


@dataclass(frozen=True)
class RunSpec:
    """A run's identity and its resolved settings."""

    run: str
    epoch: int
    settings: Settings
    model: str
    """Hash of the network."""
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
        """The seed of the actor that joined as number `ordinal`."""
        return self.settings.seed * SEEDS_PER_RUN + ordinal
