"""What stays the same for one epoch of a run: everything a peer is told in its welcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common.settings.sections import Settings


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
