"""What becomes of a gradient of older weights; its lag is the number of optimizer steps since those that acted."""

from __future__ import annotations

import math
from typing import Literal

from common.settings.sections import Staleness

SMALLEST_LIMIT = 4
"""One or two actors are not refused for the lag that a single coalesced step or a slow broadcast gives."""
ACTORS_PER_GRADIENT = 5
"""Coalescing: one more gradient per step for so many actors; a larger share starves learning of steps."""


def scale(kind: Literal["inverse-sqrt", "inverse", "none"], lag: int) -> float:
    """Factor on the step of a gradient with this `lag` (0 or more): 1/sqrt(1+lag), 1/(1+lag), or 1."""
    match kind:
        case "none":
            return 1.0
        case "inverse":
            return 1.0 / (1.0 + lag)
        case "inverse-sqrt":
            return 1.0 / math.sqrt(1.0 + lag)


def weight(section: Staleness, lag: int) -> float:
    """Factor on the step of a gradient with this `lag`: policies that do not scale leave it alone."""
    return scale(section.scale, lag) if section.policy == "scale" else 1.0


def limit(section: Staleness, actors: int, reach: int | None = None) -> int | None:
    """Largest lag that is still applied with so many actors in the run; None: every lag is.

    `reach`: so many versions back the store knows the weights, if it needs them.
    """
    if section.policy == "synchronous":
        return 0
    relative = max(SMALLEST_LIMIT, int(section.refuse_factor * actors)) if section.refuse_factor else None
    return min((one for one in (relative, section.drop_above, reach) if one is not None), default=None)


def quorum(share: float, actors: int) -> int:
    """Actors of so many that a synchronous step waits for: the share, rounded up."""
    return math.ceil(round(share * actors, 9))


def coalesce(actors: int, cap: int) -> int:
    """Most waiting gradients that one optimizer step adds up: clamp(actors / 5, 1, cap)."""
    return max(1, min(actors // ACTORS_PER_GRADIENT, cap))
